// Package simulated keeps Node objects without machines ready and plays the
// kubelet for pods that are bound to them. It stands in for real nodes where
// only scheduling and pod life matter.
//
// nodes.go has the nodes, pods.go the lives of pods, script.go when they end,
// status.go what is said of them.
package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"leasehold.dev/playground/internal/card"
)

const (
	leaseNamespace = "kube-node-lease"
	// heartbeat is well within the 50 seconds after which a node counts as lost.
	heartbeat = 15 * time.Second
	// callWithin bounds a call: an API server that hangs answers none.
	callWithin = 10 * time.Second
	// beatingAtOnce bounds how many nodes ask the API server at the same time.
	beatingAtOnce = 8
)

// Node is a simulated node and its cards.
type Node struct {
	Name      string         `json:"name"`
	Inventory card.Inventory `json:"inventory"`
}

// Run creates the nodes and keeps them alive until the context ends.
func Run(ctx context.Context, client kubernetes.Interface, nodes []Node) error {
	owned := map[string]bool{}
	for _, node := range nodes {
		if err := create(ctx, client, node); err != nil {
			return err
		}
		owned[node.Name] = true
	}
	go keepAlive(ctx, client, nodes)
	return playKubelet(ctx, client, owned)
}

func create(ctx context.Context, client kubernetes.Interface, node Node) error {
	labels := map[string]string{
		core.LabelHostname: node.Name, core.LabelOSStable: "linux", core.LabelArchStable: "amd64",
		"playground.leasehold.dev/simulated": "true",
	}
	maps.Copy(labels, node.Inventory.Labels())
	capacity := core.ResourceList{
		core.ResourceCPU: resource.MustParse("64"), core.ResourceMemory: resource.MustParse("512Gi"),
		core.ResourceEphemeralStorage: resource.MustParse("1Ti"), core.ResourcePods: resource.MustParse("250"),
	}
	if cards := len(node.Inventory.Cards); cards > 0 {
		capacity["nvidia.com/gpu"] = resource.MustParse(strconv.Itoa(cards))
	}
	_, err := client.CoreV1().Nodes().Create(ctx, &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: node.Name, Labels: labels},
		Status: core.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: healthy(),
			Addresses:  []core.NodeAddress{{Type: core.NodeHostName, Address: node.Name}},
			NodeInfo:   core.NodeSystemInfo{KubeletVersion: "v1.36.2", OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated", ContainerRuntimeVersion: "simulated://1"},
		},
	}, meta.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create node %s: %w", node.Name, err)
	}
	return (&heart{client: client, node: node.Name}).renew(ctx)
}

func healthy() []core.NodeCondition {
	now := meta.Now()
	condition := func(kind core.NodeConditionType, status core.ConditionStatus, reason string) core.NodeCondition {
		return core.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []core.NodeCondition{
		condition(core.NodeReady, core.ConditionTrue, "KubeletReady"),
		condition(core.NodeMemoryPressure, core.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(core.NodeDiskPressure, core.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(core.NodePIDPressure, core.ConditionFalse, "KubeletHasSufficientPID"),
	}
}

// keepAlive lets the nodes beat in turn, spread over the period. Several do so
// at once: an API server under load answers late, and hundreds that waited for
// each other would be lost.
func keepAlive(ctx context.Context, client kubernetes.Interface, nodes []Node) {
	for first := range min(beatingAtOnce, len(nodes)) {
		var hearts []*heart
		for index := first; index < len(nodes); index += beatingAtOnce {
			hearts = append(hearts, &heart{client: client, node: nodes[index].Name})
		}
		go beatInTurn(ctx, hearts)
	}
}

func beatInTurn(ctx context.Context, hearts []*heart) {
	ticker := time.NewTicker(heartbeat / time.Duration(len(hearts)))
	defer ticker.Stop()
	for {
		for _, each := range hearts {
			if err := each.beat(ctx); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// heart keeps one node alive.
type heart struct {
	client kubernetes.Interface
	node   string
	// lease is the node's as last written; nobody else writes it.
	lease *coordination.Lease
}

// beat renews the node's lease and says again that it is ready where the control
// plane has given it up: a renewed lease alone does not bring it back.
func (h *heart) beat(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if err := h.renew(limited); err != nil {
		return err
	}
	if err := restore(limited, h.client, h.node); err != nil {
		return fmt.Errorf("failed to say that node %s is ready: %w", h.node, err)
	}
	return nil
}

func (h *heart) renew(ctx context.Context) (err error) {
	now, seconds := meta.NowMicro(), int32(40)
	leases := h.client.CoordinationV1().Leases(leaseNamespace)
	if h.lease == nil {
		h.lease, err = leases.Get(ctx, h.node, meta.GetOptions{})
	}
	if errors.IsNotFound(err) {
		h.lease, err = leases.Create(ctx, &coordination.Lease{
			ObjectMeta: meta.ObjectMeta{Name: h.node},
			Spec:       coordination.LeaseSpec{HolderIdentity: &h.node, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, meta.CreateOptions{})
	} else if err == nil {
		h.lease.Spec.RenewTime = &now
		h.lease, err = leases.Update(ctx, h.lease, meta.UpdateOptions{})
	}
	if err != nil {
		h.lease = nil
		return fmt.Errorf("failed to renew the lease of node %s: %w", h.node, err)
	}
	return nil
}

func restore(ctx context.Context, client kubernetes.Interface, node string) error {
	found, err := client.CoreV1().Nodes().Get(ctx, node, meta.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type == core.NodeReady && condition.Status == core.ConditionTrue {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": healthy()}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
	return err
}
