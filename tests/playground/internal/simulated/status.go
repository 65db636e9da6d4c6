package simulated

import (
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// final is the status of a pod that has ended.
func final(pod *core.Pod, how end, started meta.Time) core.PodStatus {
	at := meta.NewTime(how.at)
	status := core.PodStatus{
		Phase: core.PodSucceeded, Reason: how.reason, Message: how.message, StartTime: &started,
		Conditions: conditions(at, core.ConditionFalse), InitContainerStatuses: initStatuses(pod, started),
	}
	if how.exit != 0 {
		status.Phase = core.PodFailed
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, ended(pod, container, how.exit, started, at))
	}
	return status
}

func isOver(status core.PodStatus) bool {
	return status.Phase == core.PodSucceeded || status.Phase == core.PodFailed
}

// says reports whether a status tells what is wanted. Others write the phase
// and the readiness too: the control plane, of a node that it thinks lost.
func says(status, wanted core.PodStatus) bool {
	return status.Phase == wanted.Phase && readiness(status) == readiness(wanted)
}

func readiness(status core.PodStatus) core.ConditionStatus {
	for _, condition := range status.Conditions {
		if condition.Type == core.PodReady {
			return condition.Status
		}
	}
	return core.ConditionUnknown
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
