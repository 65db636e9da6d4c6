// Package network connects real nodes with each other, with the host and with
// what the host reaches.
//
// Every playground has a router: a network namespace that knows the way to all
// nodes and pods. The host has one link to it and one route; nothing else of
// the host is changed. What leaves the playground goes through a program that
// opens the connections anew as a process of the host, so pods reach what the
// host reaches, and the host needs neither address translation nor forwarding.
//
//	host ── router ── node-1 ── pods
//	          │   └── node-2 ── pods
//	        outside
//
// This file has the addresses; router.go and outside.go the two processes,
// gateway.go the way to the API server, programs.go the packages' programs.
package network

import (
	"fmt"
	"net"
	"os"
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
	// for the links and one for the way outside.
	MaxNodes = 14
	// uplink is the number of the link to the host, outside of the range of
	// addresses that stand for what is outside.
	uplink, outside = 15, 15
	// MTU is large because connections end at the border of the playground:
	// what leaves it is cut to size by the host.
	MTU = 65520
)

var mtu = strconv.Itoa(MTU)

// Block is the addresses of one playground.
type Block int

// Link is how one node, or the host, is connected to the router.
type Link struct {
	// Gateway is the router's end, Address the other one.
	Gateway, Address net.IP
}

// Advertise is the router's own address: the API server is found there inside
// nodes and pods, and so is the cluster's DNS.
func (b Block) Advertise() net.IP { return b.address(1) }

// Range is the whole block.
func (b Block) Range() *net.IPNet { return b.network(0, blockBits) }

// Pods is the range of the pods on node number 1, 2, ...
func (b Block) Pods(number int) *net.IPNet { return b.network(number*256, 24) }

// Outside is the range that stands for everything outside.
func (b Block) Outside() *net.IPNet { return b.network(outside*256, 24) }

// Resolver is where the host's own resolver is found from inside.
func (b Block) Resolver() net.IP { return b.address(outside*256 + 3) }

// Link is the connection of node number 1, 2, ...
func (b Block) Link(number int) Link {
	return Link{Gateway: b.address(number*4 + 1), Address: b.address(number*4 + 2)}
}

func (b Block) network(offset, bits int) *net.IPNet {
	return &net.IPNet{IP: b.address(offset), Mask: net.CIDRMask(bits, 32)}
}

func (b Block) address(offset int) net.IP {
	value := 198<<24 | 18<<16 | int(b)<<(32-blockBits) | offset
	return net.IPv4(byte(value>>24), byte(value>>16), byte(value>>8), byte(value)).To4()
}

// prefix starts the names of all interfaces of a playground on the host.
func prefix(playground string) string { return "lh" + playground }

// Claim finds a free block and takes it by giving the host an address in it.
// Two playgrounds that start together are kept apart by a lock on a directory
// that every machine has.
func Claim(playground string) (Block, error) {
	lock, err := locked()
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	block, err := freeBlock()
	if err != nil {
		return 0, err
	}
	host := prefix(playground) + "h"
	return block, each(IP, [][]string{
		{"link", "add", host, "mtu", mtu, "type", "veth", "peer", "name", routerEnd(playground), "mtu", mtu},
		{"address", "add", block.Link(uplink).Address.String() + "/30", "dev", host},
		{"link", "set", host, "up"},
		{"route", "add", block.Range().String(), "via", block.Link(uplink).Gateway.String(), "dev", host},
	})
}

// routerEnd is the end of the host's link that goes to the router.
func routerEnd(playground string) string { return prefix(playground) + "r" }

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

// Remove deletes the playground's interfaces on the host; routes go with them.
func Remove(playground string) error {
	for _, name := range Interfaces(playground) {
		// One end of a pair takes the other with it.
		if err := IP("link", "delete", name); err != nil && exists(name) {
			return err
		}
	}
	return nil
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

func process(pid int) string { return strconv.Itoa(pid) }
