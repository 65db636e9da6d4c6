// Package node makes real nodes: kubelet, kube-proxy, and containerd, runc and
// CNI from unpacked distribution packages, in namespaces of their own.
//
// create.go writes a node's files and starts it from the host; init.go is the
// first process inside and supervises the rest; configuration.go has the files;
// plugin.go offers the simulated cards; images.go brings images in.
//
// A node has its own PID namespace: when its first process ends, the kernel
// ends all the others, and with them go mounts, network and interfaces.
package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"leasehold.dev/playground/internal/card"
	"leasehold.dev/playground/internal/cgroup"
	"leasehold.dev/playground/internal/controlplane"
	"leasehold.dev/playground/internal/network"
	"leasehold.dev/playground/internal/place"
	"leasehold.dev/playground/internal/process"
)

// Specification is what the first process of a node has to know.
type Specification struct {
	Name       string   `json:"name"`
	Playground string   `json:"playground"`
	Directory  string   `json:"directory"`
	Binary     string   `json:"binary"`
	Packages   string   `json:"packages"`
	Address    string   `json:"address"`
	Gateway    string   `json:"gateway"`
	Pods       string   `json:"pods"`
	Cluster    string   `json:"cluster"`
	Labels     []string `json:"labels"`
}

// Request is one node to create.
type Request struct {
	Name     string
	Place    place.Place
	Binary   string
	Packages string
	// Number is its place in the network, 1, 2, ...
	Number int
	Block  network.Block
	// Router is the process whose network namespace is the router's.
	Router int
	// Resolver is the address that names are asked at.
	Resolver string
	// Port of the API server, the same inside and outside.
	Port      int
	Inventory card.Inventory
}

// hidden are directories that the node covers with its own.
var hidden = []string{"/run", "/var/run", "/var/lib", "/var/log", "/proc"}

// Check finds what would make a node fail later with a less clear message.
func Check(at place.Place, binary, packages string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("--nodes needs root (containers, namespaces, mounts); --simulated-nodes does not")
	}
	if packages == "" {
		return fmt.Errorf("--packages is missing: --nodes runs containerd, runc and CNI from a directory of unpacked packages, see the README")
	}
	for _, file := range []string{"usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr", "usr/sbin/runc", "usr/sbin/iptables-nft", "usr/lib/cni/bridge"} {
		if _, err := os.Stat(filepath.Join(packages, file)); err != nil {
			return fmt.Errorf("--packages %s lacks %s: unpack the packages that the README lists", packages, file)
		}
	}
	for _, name := range []string{"nvidia-smi", "pause"} {
		if _, err := os.Stat(beside(binary, name)); err != nil {
			return fmt.Errorf("%s is not beside the playground binary: build all programs of the module into one directory: %w", name, err)
		}
	}
	for _, directory := range hidden {
		for what, path := range map[string]string{"--dir": at.Directory, "--packages": packages, "the binary": binary} {
			if path == directory || strings.HasPrefix(path, directory+"/") {
				return fmt.Errorf("%s is %s, but nodes have their own %s: choose another place", what, path, directory)
			}
		}
	}
	return nil
}

func beside(binary, name string) string { return filepath.Join(filepath.Dir(binary), name) }

// Create writes the files of a node and starts it.
func Create(request Request, credentials *controlplane.Credentials) (place.Node, error) {
	at, name := request.Place, request.Name
	specification := Specification{
		Name: name, Playground: at.ID, Directory: at.Node(name), Binary: request.Binary, Packages: request.Packages,
		Address: request.link().Address.String(), Gateway: request.link().Gateway.String(), Pods: request.Block.Pods(request.Number).String(),
		Cluster: request.Block.Range().String(),
	}
	for label, value := range request.Inventory.Labels() {
		specification.Labels = append(specification.Labels, label+"="+value)
	}
	if err := writeFiles(request, specification, credentials); err != nil {
		return place.Node{}, err
	}
	if err := cgroup.Create(specification.cgroup() + "/system"); err != nil {
		return place.Node{}, err
	}
	identity, err := process.Start(process.Command{
		Name: name, Path: request.Binary, Arguments: []string{"node-init", at.Node(name, "node.json")},
		Log:        at.Log(name),
		Namespaces: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}, at.ID)
	if err != nil {
		return place.Node{}, err
	}
	node := place.Node{
		Name: name, Address: specification.Address, Pods: specification.Pods, Init: identity,
		Scenario: at.Node(name, "scenario.json"),
	}
	if err := at.Change(func(r *place.Record) { r.Nodes = append(r.Nodes, node) }); err != nil {
		return place.Node{}, err
	}
	if err := network.ConnectNode(request.Block, request.Number, request.Router, identity.PID); err != nil {
		return place.Node{}, fmt.Errorf("node %s, see %s: %w", name, at.Log(name), err)
	}
	return node, nil
}

func (r Request) link() network.Link { return r.Block.Link(r.Number) }

func (s Specification) cgroup() string { return cgroup.Root(s.Playground) + "/" + s.Name }

func (s Specification) path(elements ...string) string {
	return filepath.Join(append([]string{s.Directory}, elements...)...)
}

func writeFiles(request Request, specification Specification, credentials *controlplane.Credentials) error {
	at, name := request.Place, request.Name
	server := fmt.Sprintf("https://%s:%d", request.Block.Advertise(), request.Port)
	if err := credentials.WriteKubeconfig(server, "system:node:"+name, []string{"system:nodes"}, "nodes", name, "kubeconfig"); err != nil {
		return err
	}
	if err := credentials.WriteKubeconfig(server, "system:kube-proxy", nil, "nodes", name, "kube-proxy.kubeconfig"); err != nil {
		return err
	}
	if err := credentials.WriteKubelet(name, request.link().Address, "nodes", name); err != nil {
		return err
	}
	inventory, err := json.MarshalIndent(request.Inventory, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the cards of %s: %w", name, err)
	}
	encoded, err := json.MarshalIndent(specification, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode node %s: %w", name, err)
	}
	resolver, err := network.ResolverConfiguration(request.Resolver)
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{
		"node.json":              encoded,
		"resolv.conf":            resolver,
		"kubelet.yaml":           specification.kubelet(at.Path("pki", "cluster-ca.crt")),
		"kube-proxy.yaml":        specification.proxy(),
		"containerd.toml":        specification.containerd(),
		"cni/10-bridge.conflist": specification.bridge(),
		"gpu/cards.json":         inventory,
		"gpu/scenario.json":      []byte("{}\n"),
	} {
		if err := at.Write(content, 0o644, "nodes", name, file); err != nil {
			return err
		}
	}
	if err := os.Symlink("gpu/scenario.json", at.Node(name, "scenario.json")); err != nil {
		return fmt.Errorf("failed to link the scenario of %s: %w", name, err)
	}
	simulator, err := os.ReadFile(beside(request.Binary, "nvidia-smi"))
	if err != nil {
		return fmt.Errorf("failed to read the nvidia-smi simulator: %w", err)
	}
	if err := at.Write(simulator, 0o755, "nodes", name, "nvidia-smi"); err != nil {
		return err
	}
	if err := (network.Iptables{Packages: request.Packages}).Link(at.Node(name, "bin")); err != nil {
		return err
	}
	return writePauseImage(beside(request.Binary, "pause"), at, name)
}
