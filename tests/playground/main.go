// Command playground runs a real Kubernetes control plane, simulated nodes and
// real nodes with simulated GPUs on one machine, for tests and demos.
//
// It is one program under many names: `playground kube-apiserver ...` is the
// API server. Read next: up.go, connect.go, down.go, commands.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"leasehold.dev/playground/internal/cgroup"
	"leasehold.dev/playground/internal/node"
)

// groupVariable names the control group that a background process joins before
// anything else.
const groupVariable = "LEASEHOLD_PLAYGROUND_GROUP"

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	if group := os.Getenv(groupVariable); group != "" {
		if err := cgroup.Join(group); err != nil {
			fmt.Fprintln(os.Stderr, "playground:", err)
			os.Exit(1)
		}
	}
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if component := component(name); component != nil {
		os.Args = os.Args[1:]
		os.Exit(component())
	}
	root := commands()
	if err := root.Execute(); err != nil {
		var quiet silent
		if errors.As(err, &quiet) {
			os.Exit(int(quiet))
		}
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

// silent is an exit code whose reason is already printed.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// component is the program of that name, which finds itself as os.Args[0].
func component(name string) func() int {
	run := func(command func() *cobra.Command) func() int {
		return func() int { return cli.Run(command()) }
	}
	switch name {
	case "etcd":
		return func() int { etcdmain.Main(os.Args); return 0 }
	case "kube-apiserver":
		return run(apiserver.NewAPIServerCommand)
	case "kube-controller-manager":
		return run(controllermanager.NewControllerManagerCommand)
	case "kube-scheduler":
		return run(func() *cobra.Command { return scheduler.NewSchedulerCommand() })
	case "kubelet":
		return run(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) })
	case "kube-proxy":
		return run(proxy.NewProxyCommand)
	case "kubectl":
		return run(kubectl.NewDefaultKubectlCommand)
	case "node-init":
		return inside(node.Init)
	case "device-plugin":
		return inside(node.ServePlugin)
	case "router":
		return inside(runRouter)
	case "coredns":
		return inside(runDNS)
	case "gateway":
		return inside(runGateway)
	case "simulated-nodes":
		return inside(runSimulated)
	}
	return nil
}

// inside runs a background part of the playground with its one argument.
func inside(run func(argument string) error) func() int {
	return func() int {
		if len(os.Args) != 2 {
			fmt.Fprintf(os.Stderr, "%s needs one argument; it is started by `playground up`\n", os.Args[0])
			return 2
		}
		if err := run(os.Args[1]); err != nil {
			log.Print(err)
			return 1
		}
		return 0
	}
}
