package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leasehold.dev/playground/internal/cgroup"
	"leasehold.dev/playground/internal/network"
)

// Init is the first process of a node. It only returns with an error.
func Init(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the node: %w", err)
	}
	var s Specification
	if err := json.Unmarshal(content, &s); err != nil {
		return fmt.Errorf("failed to read the node in %s: %w", file, err)
	}
	if err := cgroup.Join(s.cgroup() + "/system"); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("failed to set the host name: %w", err)
	}
	if err := s.mounts(); err != nil {
		return err
	}
	if err := s.resolver(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.environment()
	supervisor := supervisor{}
	if err := supervisor.start(component{"containerd", s.Packages + "/usr/bin/containerd", []string{"--config", s.path("containerd.toml")}, s.path("log", "containerd.log")}); err != nil {
		return err
	}
	if err := s.bringPause(); err != nil {
		return err
	}
	for _, component := range []component{
		{"device-plugin", s.Binary, []string{"device-plugin", s.Directory}, s.path("log", "device-plugin.log")},
		{"kube-proxy", s.Binary, []string{"kube-proxy", "--config=" + s.path("kube-proxy.yaml")}, s.path("log", "kube-proxy.log")},
		{"kubelet", s.Binary, append([]string{"kubelet"}, s.kubeletArguments()...), s.path("log", "kubelet.log")},
	} {
		if err := supervisor.start(component); err != nil {
			return err
		}
	}
	return supervisor.run()
}

func (s Specification) kubeletArguments() []string {
	return []string{
		"--config=" + s.path("kubelet.yaml"), "--kubeconfig=" + s.path("kubeconfig"),
		"--hostname-override=" + s.Name, "--node-ip=" + s.Address, "--cert-dir=" + s.path("pki"),
		"--node-labels=" + strings.Join(s.Labels, ","),
	}
}

// environment is inherited by all programs of the node.
func (s Specification) environment() {
	for _, entry := range append(network.Libraries(s.Packages),
		"PATH="+strings.Join([]string{s.path("bin"), s.Packages + "/usr/sbin", s.Packages + "/usr/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}, ":")) {
		name, value, _ := strings.Cut(entry, "=")
		os.Setenv(name, value)
	}
}

// mounts gives the node its own changeable directories. The kubelet's socket
// for device plugins has a fixed path below /var/lib/kubelet, so two nodes on
// one machine need their own.
func (s Specification) mounts() error {
	type mount struct {
		source, target, kind string
		flags                uintptr
	}
	mounts := []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{s.path("log"), "/var/log", "", unix.MS_BIND},
	}
	for _, name := range []string{"kubelet", "containerd", "cni"} {
		mounts = append(mounts, mount{s.path("state", name), "/var/lib/" + name, "", unix.MS_BIND})
	}
	// Shared, so that volumes mounted later are seen in running containers.
	mounts = append(mounts, mount{"", "/", "", unix.MS_REC | unix.MS_SHARED})
	for _, m := range mounts {
		if m.flags == unix.MS_BIND {
			for _, directory := range []string{m.source, m.target} {
				if err := os.MkdirAll(directory, 0o755); err != nil {
					return fmt.Errorf("failed to make %s: %w", directory, err)
				}
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("failed to mount %s on %s: %w", m.source, m.target, err)
		}
	}
	return nil
}

// resolver makes the node's programs ask where its pods ask.
func (s Specification) resolver() error {
	const file = "/etc/resolv.conf"
	// It may be a link to a file in /run, which the node has its own of.
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		target, err := os.Readlink(file)
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", file, err)
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join("/etc", target)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("failed to make the directory of %s: %w", target, err)
		}
		if err := os.WriteFile(target, nil, 0o644); err != nil {
			return fmt.Errorf("failed to make %s: %w", target, err)
		}
	}
	if err := unix.Mount(s.path("resolv.conf"), file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("failed to mount %s: %w", file, err)
	}
	return nil
}

// connect waits for the node's end of its link and sets the network up.
func (s Specification) connect() error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := net.InterfaceByName("eth0"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the link to the router did not arrive")
		}
	}
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", s.Address + "/30", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", s.Gateway},
	} {
		if err := network.IP(arguments...); err != nil {
			return err
		}
	}
	// Without it an answer from a pod of the same node would not come back
	// through the address of the Service.
	if err := network.Set("bridge/bridge-nf-call-iptables", "1"); err != nil {
		log.Printf("pods may not reach Services on their own node: %v", err)
	}
	return network.Set("ipv4/ip_forward", "1")
}

// bringPause imports the sandbox image, so that no registry is needed.
func (s Specification) bringPause() error {
	var output []byte
	var err error
	for range 300 {
		output, err = exec.Command(filepath.Join(s.Packages, "usr/bin/ctr"), "--address", containerdSocket, "--namespace", "k8s.io", "images", "import", s.path("pause.tar")).CombinedOutput()
		if err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("failed to import the sandbox image: %w: %s", err, output)
}

type component struct {
	name, path string
	arguments  []string
	log        string
}

// restartAfter keeps a component that cannot run from filling its log.
const restartAfter = time.Second

// supervisor is the running components by process id.
type supervisor map[int]component

func (s supervisor) start(c component) error {
	output, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("failed to open the log of %s: %w", c.name, err)
	}
	defer output.Close()
	child, err := os.StartProcess(c.path, append([]string{c.path}, c.arguments...), &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{nil, output, output}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("failed to start %s: %w", c.name, err)
	}
	log.Printf("started %s", c.name)
	s[child.Pid] = c
	return nil
}

// run starts components again when they end, as a service manager does. As the
// first process of the node it also reaps every orphan: containers' shims are
// some.
func (s supervisor) run() error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("failed to wait for the processes of the node: %w", err)
		}
		ended, ok := s[pid]
		if !ok {
			continue
		}
		delete(s, pid)
		log.Printf("%s ended with status %d, starting it again", ended.name, status)
		time.Sleep(restartAfter)
		if err := s.start(ended); err != nil {
			return err
		}
	}
}
