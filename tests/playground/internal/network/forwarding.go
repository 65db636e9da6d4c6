package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// forwardingNote names the host's outer interface when a playground let it
// forward packets. Like the setting it does not outlive a restart of the
// machine. The last playground that goes turns the setting back.
const forwardingNote = "/run/leasehold-playground.forwarding"

// anyLink matches the host's interfaces of all playgrounds.
var anyLink = regexp.MustCompile(`^lh[0-9a-f]{8}[np][0-9]+$`)

func setting(device string) string {
	return filepath.Join("/proc/sys/net/ipv4/conf", device, "forwarding")
}

// Forward lets packets pass between pods and the outside. Only the interfaces
// that need it are changed, and only where the machine does not forward anyway.
func Forward(links []Link) error {
	lock, err := locked()
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, link := range links {
		if err := os.WriteFile(setting(link.Host), []byte("1"), 0); err != nil {
			return fmt.Errorf("failed to let %s forward: %w", link.Host, err)
		}
	}
	outer := outerInterface()
	if outer == "" {
		return errors.New("this machine has no default route")
	}
	current, err := os.ReadFile(setting(outer))
	if err != nil {
		return fmt.Errorf("failed to ask whether %s forwards: %w", outer, err)
	}
	if strings.TrimSpace(string(current)) != "0" {
		return nil
	}
	if err := os.WriteFile(forwardingNote, []byte(outer), 0o644); err != nil {
		return fmt.Errorf("failed to note that %s shall forward: %w", outer, err)
	}
	if err := os.WriteFile(setting(outer), []byte("1"), 0); err != nil {
		return fmt.Errorf("failed to let %s forward: %w", outer, err)
	}
	return nil
}

// stopForwarding turns back what Forward changed, unless another playground
// still needs it.
func stopForwarding() error {
	lock, err := locked()
	if err != nil {
		return err
	}
	defer lock.Close()
	outer, err := os.ReadFile(forwardingNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to read which interface forwards: %w", err)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("failed to list interfaces: %w", err)
	}
	for _, each := range interfaces {
		if anyLink.MatchString(each.Name) {
			return nil
		}
	}
	if err := os.WriteFile(setting(string(outer)), []byte("0"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to end forwarding on %s: %w", outer, err)
	}
	if err := os.Remove(forwardingNote); err != nil {
		return fmt.Errorf("failed to remove %s: %w", forwardingNote, err)
	}
	return nil
}

// outerInterface is the one with the default route; empty without one.
func outerInterface() string {
	content, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[1] == "00000000" {
			return fields[0]
		}
	}
	return ""
}
