package network

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// IP runs iproute2.
func IP(arguments ...string) error { return run(exec.Command("ip", arguments...)) }

// each runs iproute2 line by line up to the first failure.
func each(ip func(arguments ...string) error, lines [][]string) error {
	for _, arguments := range lines {
		if err := ip(arguments...); err != nil {
			return err
		}
	}
	return nil
}

func run(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("failed to run %s: %w: %s", strings.Join(command.Args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}

// Iptables is an iptables from unpacked packages.
type Iptables struct{ Packages string }

func (i Iptables) command(arguments ...string) *exec.Cmd {
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
