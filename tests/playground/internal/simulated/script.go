package simulated

import (
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	// Stop is the order to which leasehold's agent ends a program; a pod with
	// DeafVariable in its environment is one whose agent does not hear it.
	Stop         = "leasehold.dev/stop"
	DeafVariable = "PLAYGROUND_DEAF"

	usualRun = 5 * time.Second
)

// end is when and how a pod ends by itself.
type end struct {
	// at is zero when it never does.
	at              time.Time
	exit            int
	reason, message string
}

// endOf is the earlier of the program's own end and the pod's deadline.
func endOf(pod *core.Pod, started meta.Time) end {
	var first end
	scripted, hasScript := scriptOf(pod, RunFor, RunForVariable)
	// A pod that is to be restarted for ever never ends unless told to.
	if hasScript || pod.Spec.RestartPolicy != core.RestartPolicyAlways {
		run := usualRun
		if parsed, err := time.ParseDuration(scripted); err == nil {
			run = parsed
		}
		wanted, _ := scriptOf(pod, ExitCode, ExitCodeVariable)
		exit, _ := strconv.Atoi(wanted)
		first = end{at: started.Add(run), exit: exit}
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		deadline := started.Add(time.Duration(*seconds) * time.Second)
		if first.at.IsZero() || deadline.Before(first.at) {
			first = end{deadline, 137, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"}
		}
	}
	return first
}

// isStopped says whether the pod was told to end, and hears it.
func isStopped(pod *core.Pod) bool {
	_, deaf := scriptOf(pod, "", DeafVariable)
	return pod.Annotations[Stop] != "" && !deaf
}

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
