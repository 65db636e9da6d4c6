package network

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// outsideInterface is in the router's namespace.
const outsideInterface = "outside"

// Outside is the command that opens the router's connections to the outside
// anew as a process of the host. It needs no change of the host: it only reads
// and writes packets of an interface in the router's namespace.
func Outside(packages string, block Block, router int) (program string, arguments, environment []string) {
	return outsideProgram(packages), []string{
		"--configure", "--mtu=" + mtu, "--cidr=" + block.Outside().String(),
		// The host's loopback is the business of the host.
		"--disable-host-loopback",
		process(router), outsideInterface,
	}, Libraries(packages)
}

func outsideProgram(packages string) string { return filepath.Join(packages, "usr/bin/slirp4netns") }

// CheckOutside tells what this machine lacks for a way outside.
func CheckOutside(packages string) error {
	if _, err := os.Stat(outsideProgram(packages)); err != nil {
		return fmt.Errorf("--packages has no slirp4netns: %w", err)
	}
	device, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no interface can be made: %w", err)
	}
	return device.Close()
}

// ResolverConfiguration is the host's resolver configuration with the address
// at which the host's resolver is found from inside: the host's own may be one
// of its loopback. Without a way outside there is no such address.
func ResolverConfiguration(resolver string) ([]byte, error) {
	host, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil, fmt.Errorf("failed to read the resolver configuration: %w", err)
	}
	if resolver == "" {
		return host, nil
	}
	lines := []string{"nameserver " + resolver}
	for line := range strings.Lines(string(host)) {
		if strings.HasPrefix(line, "search ") || strings.HasPrefix(line, "options ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}
