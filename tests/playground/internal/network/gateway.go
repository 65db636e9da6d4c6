package network

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Gateway forwards what arrives at listen inside the network namespace of the
// process to target on the host, for as long as it can. The API server thereby
// listens on the host's loopback only and is still reachable in nodes and pods.
func Gateway(pid int, listen, target string) error {
	var listener net.Listener
	var err error
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// The address is there as soon as the router has set up its network.
		if listener, err = listenIn(pid, listen); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("failed to listen on %s in the router (process %d): %w", listen, pid, err)
		}
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("failed to accept on %s: %w", listen, err)
		}
		go forward(connection.(*net.TCPConn), target)
	}
}

// listenIn makes a socket in another network namespace. The thread that went
// there is never used again: it stays locked and ends with its goroutine.
func listenIn(pid int, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			done <- result{err: err}
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: err}
			return
		}
		listener, err := net.Listen("tcp4", address)
		done <- result{listener, err}
	}()
	got := <-done
	return got.listener, got.err
}

func forward(inside *net.TCPConn, target string) {
	defer inside.Close()
	dialled, err := net.DialTimeout("tcp4", target, 5*time.Second)
	if err != nil {
		return
	}
	outside := dialled.(*net.TCPConn)
	defer outside.Close()
	done := make(chan struct{}, 2)
	pass := func(to, from *net.TCPConn) {
		_, _ = io.Copy(to, from)
		// The other direction may still have something to say.
		_ = to.CloseWrite()
		done <- struct{}{}
	}
	go pass(outside, inside)
	go pass(inside, outside)
	<-done
	<-done
}
