package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strconv"
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

// Annotations that script a pod.
const (
	// RunFor is how long main runs: a Go duration.
	RunFor = "playground.leasehold.dev/run-for"
	// ExitCode is main's exit code.
	ExitCode = "playground.leasehold.dev/exit-code"
	// Message before a container's name gives its termination message.
	Message = "playground.leasehold.dev/message."

	// RunForVariable and ExitCodeVariable say the same in main's environment,
	// for pods whose annotations others write.
	RunForVariable   = "PLAYGROUND_RUN_FOR"
	ExitCodeVariable = "PLAYGROUND_EXIT_CODE"

	usualRun = 5 * time.Second
)

// life is one pod's goroutine; deleted is closed at its deletion.
type life struct {
	deleted chan struct{}
	once    sync.Once
}

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
					known.(*life).end()
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

func (l *life) end() { l.once.Do(func() { close(l.deleted) }) }

func (k *kubelet) see(ctx context.Context, pod *core.Pod) {
	known, seen := k.lives.LoadOrStore(pod.UID, &life{deleted: make(chan struct{})})
	current := known.(*life)
	if pod.DeletionTimestamp != nil {
		current.end()
	}
	if !seen {
		go k.live(ctx, pod.DeepCopy(), current)
	}
}

// live is the whole life of a pod: run, end, vanish when it is deleted.
func (k *kubelet) live(ctx context.Context, pod *core.Pod, current *life) {
	started := meta.Now()
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	if pod.Status.Phase == core.PodPending || pod.Status.Phase == "" {
		select {
		case <-current.deleted:
		default:
			k.write(ctx, pod, running(pod, started, k.address()))
		}
	}
	if pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed {
		k.finish(ctx, pod, current, started)
	}
	select {
	case <-current.deleted:
	case <-ctx.Done():
		return
	}
	now, uid := int64(0), pod.UID
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &meta.Preconditions{UID: &uid}})
	if err != nil && !errors.IsNotFound(err) && !errors.IsConflict(err) && ctx.Err() == nil {
		log.Printf("failed to delete pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
}

// finish waits for the first of: main's own end, the pod's deadline, its
// deletion.
// scriptOf is what a pod says about its own run.
func scriptOf(pod *core.Pod, annotation, variable string) (string, bool) {
	if value, ok := pod.Annotations[annotation]; ok {
		return value, true
	}
	for _, container := range pod.Spec.Containers {
		for _, each := range container.Env {
			if each.Name == variable {
				return each.Value, true
			}
		}
	}
	return "", false
}

func (k *kubelet) finish(ctx context.Context, pod *core.Pod, current *life, started meta.Time) {
	var ownEnd, deadline <-chan time.Time
	scripted, hasScript := scriptOf(pod, RunFor, RunForVariable)
	run := usualRun
	if parsed, err := time.ParseDuration(scripted); err == nil {
		run = parsed
	}
	// A pod that is to be restarted for ever never ends unless told to.
	if hasScript || pod.Spec.RestartPolicy != core.RestartPolicyAlways {
		ownEnd = time.After(time.Until(started.Add(run)))
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		deadline = time.After(time.Until(started.Add(time.Duration(*seconds) * time.Second)))
	}
	wanted, _ := scriptOf(pod, ExitCode, ExitCodeVariable)
	exit, _ := strconv.Atoi(wanted)
	status := core.PodStatus{Phase: core.PodSucceeded}
	select {
	case <-ctx.Done():
		return
	case <-ownEnd:
		if exit != 0 {
			status.Phase = core.PodFailed
		}
	case <-deadline:
		exit = 137
		status.Phase, status.Reason, status.Message = core.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	case <-current.deleted:
		exit = 143
		status.Phase = core.PodFailed
	}
	now := meta.Now()
	status.Conditions = conditions(now, core.ConditionFalse)
	status.InitContainerStatuses = initStatuses(pod, started)
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, ended(pod, container, exit, started, now))
	}
	k.write(ctx, pod, status)
}

func (k *kubelet) write(ctx context.Context, pod *core.Pod, status core.PodStatus) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
	}
	if err != nil && !errors.IsNotFound(err) && !errors.IsConflict(err) && ctx.Err() == nil {
		log.Printf("failed to write the status of pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
}

// address is an address that no one has.
func (k *kubelet) address() string {
	number := k.next.Add(1)
	return fmt.Sprintf("100.127.%d.%d", number/254%256, number%254+1)
}

func running(pod *core.Pod, started meta.Time, address string) core.PodStatus {
	status := core.PodStatus{
		Phase: core.PodRunning, StartTime: &started, PodIP: address, PodIPs: []core.PodIP{{IP: address}},
		Conditions: conditions(started, core.ConditionTrue), InitContainerStatuses: initStatuses(pod, started),
	}
	for _, container := range pod.Spec.Containers {
		yes := true
		status.ContainerStatuses = append(status.ContainerStatuses, core.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: "simulated", ContainerID: identity(pod, container), Ready: true, Started: &yes,
			State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: started}},
		})
	}
	return status
}

func initStatuses(pod *core.Pod, started meta.Time) []core.ContainerStatus {
	var statuses []core.ContainerStatus
	for _, container := range pod.Spec.InitContainers {
		status := ended(pod, container, 0, started, started)
		status.Ready = true
		statuses = append(statuses, status)
	}
	return statuses
}

func ended(pod *core.Pod, container core.Container, exit int, started, finished meta.Time) core.ContainerStatus {
	reason, no := "Completed", false
	if exit != 0 {
		reason = "Error"
	}
	return core.ContainerStatus{
		Name: container.Name, Image: container.Image, ImageID: "simulated", ContainerID: identity(pod, container), Started: &no,
		State: core.ContainerState{Terminated: &core.ContainerStateTerminated{
			ExitCode: int32(exit), Reason: reason, StartedAt: started, FinishedAt: finished,
			ContainerID: identity(pod, container), Message: pod.Annotations[Message+container.Name],
		}},
	}
}

func identity(pod *core.Pod, container core.Container) string {
	return "simulated://" + string(pod.UID) + "/" + container.Name
}

func conditions(now meta.Time, ready core.ConditionStatus) []core.PodCondition {
	var all []core.PodCondition
	for _, each := range []struct {
		kind   core.PodConditionType
		status core.ConditionStatus
	}{{core.PodReadyToStartContainers, ready}, {core.PodInitialized, core.ConditionTrue}, {core.ContainersReady, ready}, {core.PodReady, ready}} {
		all = append(all, core.PodCondition{Type: each.kind, Status: each.status, LastTransitionTime: now})
	}
	return all
}
