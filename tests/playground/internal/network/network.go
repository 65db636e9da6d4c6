// Package network gives real nodes addresses on the host: one veth pair per
// node, a route to its pods and one masquerade rule per playground. Node
// namespaces need no cleaning of their own, they end with their processes.
package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Blocks of 4096 addresses are cut from 198.18.0.0/15, which is set aside for
// benchmarks and is no one's real network.
const (
	blocks    = 32
	blockBits = 20
	// MaxNodes is how many pod ranges of 256 addresses a block has, less one
	// for the links of the nodes.
	MaxNodes = 15
)

// Block is the addresses of one playground.
type Block int

// Link is how one node is connected.
type Link struct {
	// Host is the interface on the host, Peer the end that goes to the node.
	Host, Peer string
	// HostAddress and Address are the two ends of the link.
	HostAddress, Address net.IP
	Pods                 *net.IPNet
	MTU                  int
}

// Advertise is the address at which the API server is found inside nodes and
// pods; it does not exist on the host.
func (b Block) Advertise() net.IP { return b.address(1) }

// Range is the whole block.
func (b Block) Range() *net.IPNet {
	return &net.IPNet{IP: b.address(0), Mask: net.CIDRMask(blockBits, 32)}
}

// Link is the connection of node number 1, 2, ...
func (b Block) Link(playground string, number int) Link {
	return Link{
		Host:        fmt.Sprintf("%sn%d", prefix(playground), number),
		Peer:        fmt.Sprintf("%sp%d", prefix(playground), number),
		HostAddress: b.address(number*4 + 1),
		Address:     b.address(number*4 + 2),
		Pods:        &net.IPNet{IP: b.address(number * 256), Mask: net.CIDRMask(24, 32)},
		MTU:         mtu(),
	}
}

func (b Block) address(offset int) net.IP {
	value := 198<<24 | 18<<16 | int(b)<<(32-blockBits) | offset
	return net.IPv4(byte(value>>24), byte(value>>16), byte(value>>8), byte(value)).To4()
}

// prefix starts the names of all interfaces of a playground.
func prefix(playground string) string { return "lh" + playground }

// Claim finds a free block and creates the links of the nodes in it. Two
// playgrounds that start together are kept apart by a lock on a directory that
// every machine has.
func Claim(playground string, nodes int) (Block, []Link, error) {
	lock, err := locked()
	if err != nil {
		return 0, nil, err
	}
	defer lock.Close()
	block, err := freeBlock()
	if err != nil {
		return 0, nil, err
	}
	var links []Link
	for number := 1; number <= nodes; number++ {
		link := block.Link(playground, number)
		for _, arguments := range [][]string{
			{"link", "add", link.Host, "mtu", strconv.Itoa(link.MTU), "type", "veth", "peer", "name", link.Peer, "mtu", strconv.Itoa(link.MTU)},
			{"address", "add", link.HostAddress.String() + "/30", "dev", link.Host},
			{"link", "set", link.Host, "up"},
			{"route", "add", link.Pods.String(), "via", link.Address.String(), "dev", link.Host},
		} {
			if err := IP(arguments...); err != nil {
				return 0, nil, err
			}
		}
		links = append(links, link)
	}
	return block, links, nil
}

// locked holds the lock until it is closed.
func locked() (*os.File, error) {
	lock, err := os.Open("/run")
	if err != nil {
		return nil, fmt.Errorf("failed to open the network lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return nil, fmt.Errorf("failed to lock the network: %w", err)
	}
	return lock, nil
}

func freeBlock() (Block, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return 0, fmt.Errorf("failed to list the addresses of this machine: %w", err)
	}
	for block := range Block(blocks) {
		free := true
		for _, address := range addresses {
			if network, ok := address.(*net.IPNet); ok && block.Range().Contains(network.IP) {
				free = false
			}
		}
		if free {
			return block, nil
		}
	}
	return 0, fmt.Errorf("all %d address blocks of 198.18.0.0/15 are in use on this machine: take a playground down", blocks)
}

// Masquerade lets pods reach what the host reaches.
func Masquerade(iptables Iptables, playground string, block Block) error {
	own := block.Range().String()
	return iptables.run("-w", "-t", "nat", "-A", "POSTROUTING", "-s", own, "!", "-d", own,
		"-m", "comment", "--comment", comment(playground), "-j", "MASQUERADE")
}

func comment(playground string) string { return "leasehold-" + playground }

// Remove deletes the interfaces and rules of a playground.
func Remove(iptables Iptables, playground string) error {
	var failures []error
	for _, name := range Interfaces(playground) {
		// One end of a pair takes the other with it.
		if err := IP("link", "delete", name); err != nil && exists(name) {
			failures = append(failures, err)
		}
	}
	for _, rule := range Rules(iptables, playground) {
		arguments := append([]string{"-w", "-t", "nat", "-D"}, strings.Fields(strings.TrimPrefix(rule, "-A "))...)
		failures = append(failures, iptables.run(arguments...))
	}
	if os.Geteuid() == 0 {
		failures = append(failures, stopForwarding())
	}
	return errors.Join(failures...)
}

// Interfaces lists the playground's interfaces on the host.
func Interfaces(playground string) []string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var names []string
	for _, each := range interfaces {
		if strings.HasPrefix(each.Name, prefix(playground)) {
			names = append(names, each.Name)
		}
	}
	return names
}

func exists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// Rules lists the playground's NAT rules; none when iptables cannot be run,
// since then none was made.
func Rules(iptables Iptables, playground string) []string {
	output, err := iptables.command("-w", "-t", "nat", "-S", "POSTROUTING").Output()
	if err != nil {
		return nil
	}
	var rules []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, comment(playground)) {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules
}

// IP runs iproute2.
func IP(arguments ...string) error { return run(exec.Command("ip", arguments...)) }

// Iptables is an iptables from unpacked packages, or the host's when empty.
type Iptables struct{ Packages string }

func (i Iptables) run(arguments ...string) error { return run(i.command(arguments...)) }

func (i Iptables) command(arguments ...string) *exec.Cmd {
	if i.Packages == "" {
		return exec.Command("iptables", arguments...)
	}
	command := exec.Command(i.program("iptables"), arguments...)
	command.Env = append(os.Environ(), Libraries(i.Packages)...)
	return command
}

// program is the variant that the package root was set up for; packages that
// were only unpacked lack that link, and distributions prefer nft.
func (i Iptables) program(name string) string {
	chosen := filepath.Join(i.Packages, "usr/sbin", name)
	if _, err := os.Stat(chosen); err == nil {
		return chosen
	}
	return filepath.Join(i.Packages, "usr/sbin", strings.Replace(name, "tables", "tables-nft", 1))
}

// Link makes the plain names of iptables in a directory of programs.
func (i Iptables) Link(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("failed to make %s: %w", directory, err)
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		if err := os.Symlink(i.program(name), filepath.Join(directory, name)); err != nil {
			return fmt.Errorf("failed to link %s: %w", name, err)
		}
	}
	return nil
}

// Libraries is the environment that runs programs of an unpacked package root.
func Libraries(packages string) []string {
	var directories []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(packages, pattern))
		directories = append(directories, found...)
	}
	environment := []string{"LD_LIBRARY_PATH=" + strings.Join(directories, ":")}
	if found, _ := filepath.Glob(filepath.Join(packages, "usr/lib/*-linux-gnu*/xtables")); len(found) > 0 {
		environment = append(environment, "XTABLES_LIBDIR="+found[0])
	}
	return environment
}

func run(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("failed to run %s: %w: %s", strings.Join(command.Args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}

// mtu is that of the interface with the default route, so that packets of pods
// fit where the host's do.
func mtu() int {
	if device, err := net.InterfaceByName(outerInterface()); err == nil {
		return device.MTU
	}
	return 1500
}
