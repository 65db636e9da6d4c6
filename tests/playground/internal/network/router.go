package network

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Router is what the process that holds the router's namespace has to know.
type Router struct {
	Block    Block  `json:"block"`
	Packages string `json:"packages"`
}

// Hold sets the router up in the namespace of this process and keeps the
// namespace until the process is ended.
func (r Router) Hold() error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if err := each(IP, [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", r.Block.Advertise().String() + "/32", "dev", "lo"},
	}); err != nil {
		return err
	}
	for setting, value := range map[string]string{"ip_forward": "1", "conf/all/send_redirects": "0", "conf/default/send_redirects": "0"} {
		if err := Set("ipv4/"+setting, value); err != nil {
			return err
		}
	}
	// The way outside knows only its own range of addresses.
	if err := run(Iptables{Packages: r.Packages}.command("-w", "-t", "nat", "-A", "POSTROUTING", "-o", outsideInterface, "-j", "MASQUERADE")); err != nil {
		return err
	}
	<-ended
	return nil
}

// Set changes a network setting of the namespace of this process.
func Set(name, value string) error {
	if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
		return fmt.Errorf("failed to set net/%s to %s: %w", name, value, err)
	}
	return nil
}

// ConnectHost gives the router its end of the host's link.
func ConnectHost(playground string, block Block, router int) error {
	if err := IP("link", "set", routerEnd(playground), "netns", process(router), "name", "host"); err != nil {
		return err
	}
	return each(in(router), [][]string{
		{"address", "add", block.Link(uplink).Gateway.String() + "/30", "dev", "host"},
		{"link", "set", "host", "up"},
	})
}

// ConnectNode lays a link between the router and the first process of a node,
// which finds its end as eth0.
func ConnectNode(block Block, number, router, node int) error {
	link, name := block.Link(number), fmt.Sprintf("node-%d", number)
	return each(in(router), [][]string{
		{"link", "add", name, "mtu", mtu, "type", "veth", "peer", "name", "eth0", "netns", process(node), "mtu", mtu},
		{"address", "add", link.Gateway.String() + "/30", "dev", name},
		{"link", "set", name, "up"},
		{"route", "add", block.Pods(number).String(), "via", link.Address.String(), "dev", name},
	})
}

// in runs iproute2 in the network namespace of a process.
func in(pid int) func(arguments ...string) error {
	return func(arguments ...string) error {
		return run(exec.Command("nsenter", append([]string{"--net=/proc/" + process(pid) + "/ns/net", "ip"}, arguments...)...))
	}
}
