package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// retry is how long a pod waits after a call that failed. The API server can be
// away for any time: what it was not told is told when it is back.
const retry = 3 * time.Second

type kubelet struct {
	client kubernetes.Interface
	lives  sync.Map // types.UID → *life
	next   atomic.Uint32
}

func playKubelet(ctx context.Context, client kubernetes.Interface, owned map[string]bool) error {
	k := &kubelet{client: client}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *meta.ListOptions) {
		options.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	informer := factory.Core().V1().Pods().Informer()
	see := func(object any) {
		if pod, ok := object.(*core.Pod); ok && owned[pod.Spec.NodeName] {
			k.see(ctx, pod)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*core.Pod); ok {
				if known, ok := k.lives.LoadAndDelete(pod.UID); ok {
					known.(*life).seen(nil)
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("failed to watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

func (k *kubelet) see(ctx context.Context, pod *core.Pod) {
	known, old := k.lives.LoadOrStore(pod.UID, &life{changed: make(chan struct{}, 1)})
	current := known.(*life)
	current.seen(pod)
	if !old {
		current.begin(pod, k.address())
		go current.run(ctx, k.client)
	}
}

// address is an address that no one has.
func (k *kubelet) address() string {
	number := k.next.Add(1)
	return fmt.Sprintf("100.127.%d.%d", number/254%256, number%254+1)
}

// life is one pod's: how it truly is, and how the API server knows it.
type life struct {
	changed chan struct{}
	mutex   sync.Mutex
	// latest is the pod as last heard from the API server; nil once it is gone.
	latest *core.Pod

	// The rest belongs to run.
	started meta.Time
	end     end
	status  core.PodStatus
	over    bool
	removed bool
}

func (l *life) seen(pod *core.Pod) {
	l.mutex.Lock()
	l.latest = pod
	l.mutex.Unlock()
	select {
	case l.changed <- struct{}{}:
	default: // A wake is waiting already.
	}
}

func (l *life) last() *core.Pod {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.latest
}

// begin starts the pod, or takes over one that was started before this process.
func (l *life) begin(pod *core.Pod, address string) {
	l.started = meta.Now()
	if pod.Status.StartTime != nil {
		l.started = *pod.Status.StartTime
	}
	if pod.Status.PodIP != "" {
		address = pod.Status.PodIP
	}
	l.end = endOf(pod, l.started)
	l.status = running(pod, l.started, address)
}

// run compares what is true with what the API server says whenever either
// changes, so that neither a lost call nor a status that others wrote stays.
func (l *life) run(ctx context.Context, client kubernetes.Interface) {
	failing := false
	// What begin was called with is known.
	select {
	case <-l.changed:
	default:
	}
	for pod := l.last(); pod != nil && ctx.Err() == nil; pod = l.last() {
		l.advance(pod, time.Now())
		var again <-chan time.Time
		if !l.over && !l.end.at.IsZero() {
			again = time.After(time.Until(l.end.at))
		}
		err := l.tell(ctx, client, pod)
		if err != nil {
			again = time.After(retry)
			if !failing && ctx.Err() == nil {
				log.Printf("%v; trying again every %s", err, retry)
			}
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-l.changed:
		case <-again:
		}
	}
}

// advance ends the pod at the first of: its program's own end, its deadline,
// the order to stop, its deletion. An end that passed unseen still came first.
func (l *life) advance(pod *core.Pod, now time.Time) {
	switch {
	case l.over:
	case isOver(pod.Status):
		l.over = true
	case !l.end.at.IsZero() && !now.Before(l.end.at):
		l.over, l.status = true, final(pod, l.end, l.started)
	case isStopped(pod), pod.DeletionTimestamp != nil:
		l.over, l.status = true, final(pod, end{at: now, exit: 143}, l.started)
	}
}

// tell brings the API server to what is true. What it refuses because the pod
// is gone or another one needs no telling.
func (l *life) tell(ctx context.Context, client kubernetes.Interface, pod *core.Pod) error {
	limited, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	pods := client.CoreV1().Pods(pod.Namespace)
	if !isOver(pod.Status) && !says(pod.Status, l.status) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": l.status})
		if err == nil {
			_, err = pods.Patch(limited, pod.Name, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
		}
		if err != nil && !errors.IsNotFound(err) && !errors.IsConflict(err) {
			return fmt.Errorf("failed to write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if pod.DeletionTimestamp != nil && !l.removed {
		now := int64(0)
		err := pods.Delete(limited, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &meta.Preconditions{UID: &pod.UID}})
		if err != nil && !errors.IsNotFound(err) && !errors.IsConflict(err) {
			return fmt.Errorf("failed to delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		l.removed = true
	}
	return nil
}
