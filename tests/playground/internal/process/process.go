// Package process starts background processes and ends them by identity: a
// process id together with its start time, so that a reused id is never
// signalled.
package process

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is the environment variable that carries a playground's id in all of
// its processes. It finds processes whose record is lost.
const Mark = "LEASEHOLD_PLAYGROUND"

// Identity names one process for as long as the machine runs.
type Identity struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Started is the start time in clock ticks since boot, from /proc/PID/stat.
	Started uint64 `json:"started"`
}

// Command is a background process to start.
type Command struct {
	Name        string
	Path        string
	Arguments   []string
	Environment []string
	// Log receives standard output and error; it is appended to.
	Log string
	// Namespaces are clone flags.
	Namespaces uintptr
	// Network is the process whose network namespace the command runs in; 0 is
	// the starter's.
	Network int
}

// Start runs the command in a session of its own, so that it survives its
// starter and its terminal.
func Start(command Command, playground string) (Identity, error) {
	log, err := os.OpenFile(command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Identity{}, fmt.Errorf("failed to open the log of %s: %w", command.Name, err)
	}
	defer log.Close()
	path, arguments := command.Path, command.Arguments
	if command.Network != 0 {
		// It becomes the command, so that the process id is the command's.
		path, arguments = "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", command.Network), command.Path}, arguments...)
	}
	child := exec.Command(path, arguments...)
	child.Env = append(append(os.Environ(), Mark+"="+playground), command.Environment...)
	child.Stdout, child.Stderr = log, log
	child.Dir = "/"
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: command.Namespaces}
	// A lock or a pipe that the starter inherited must not be held for as long as
	// the child runs. Kernels before 5.11 cannot do it, and nothing else fails.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err := child.Start(); err != nil {
		return Identity{}, fmt.Errorf("failed to start %s: %w", command.Name, err)
	}
	status, err := readStatus(child.Process.Pid)
	if err != nil {
		return Identity{}, fmt.Errorf("%s ended at once, see %s: %w", command.Name, command.Log, err)
	}
	return Identity{Name: command.Name, PID: child.Process.Pid, Started: status.started}, nil
}

// Identify reads the identity of a running process.
func Identify(pid int) (Identity, error) {
	status, err := readStatus(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Name: describe(pid, status.name), PID: pid, Started: status.started}, nil
}

// describe says which of this program's many names a process runs under.
func describe(pid int, name string) string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	own, ownErr := os.Executable()
	arguments := strings.Split(string(line), "\x00")
	if err != nil || ownErr != nil || len(arguments) < 2 || filepath.Base(arguments[0]) != filepath.Base(own) {
		return name
	}
	return arguments[1]
}

// Alive reports whether this very process still runs. A zombie does not run.
func (i Identity) Alive() bool {
	status, err := readStatus(i.PID)
	return err == nil && status.started == i.Started && status.state != 'Z' && status.state != 'X'
}

// Children lists the processes whose parent is this one.
func (i Identity) Children() []Identity {
	var children []Identity
	for _, pid := range all() {
		if status, err := readStatus(pid); err == nil && status.parent == i.PID && status.state != 'Z' {
			children = append(children, Identity{Name: describe(pid, status.name), PID: pid, Started: status.started})
		}
	}
	return children
}

// Marked lists the living processes that carry the playground's id.
func Marked(playground string) []Identity {
	mark := []byte(Mark + "=" + playground)
	return matching(func(pid int) bool {
		environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil {
			return false
		}
		for _, entry := range bytes.Split(environment, []byte{0}) {
			if bytes.Equal(entry, mark) {
				return true
			}
		}
		return false
	})
}

// Mounting lists the living processes in whose mount namespace something of
// the directory is mounted.
func Mounting(directory string) []Identity {
	needle := []byte(directory + "/")
	return matching(func(pid int) bool {
		mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
		return err == nil && bytes.Contains(mounts, needle)
	})
}

// Stop asks the processes to end, waits for the grace, then kills.
func Stop(identities []Identity, grace time.Duration) {
	if grace > 0 {
		signal(identities, syscall.SIGTERM)
		if wait(identities, grace) {
			return
		}
	}
	signal(identities, syscall.SIGKILL)
	wait(identities, 10*time.Second)
}

func signal(identities []Identity, number syscall.Signal) {
	for _, identity := range identities {
		if identity.Alive() && identity.PID > 1 {
			// An error means that it ended in between.
			_ = syscall.Kill(identity.PID, number)
		}
	}
}

func wait(identities []Identity, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		alive := false
		for _, identity := range identities {
			alive = alive || identity.Alive()
		}
		if !alive {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func matching(match func(pid int) bool) []Identity {
	var found []Identity
	for _, pid := range all() {
		if pid == os.Getpid() || !match(pid) {
			continue
		}
		if identity, err := Identify(pid); err == nil && identity.Alive() {
			found = append(found, identity)
		}
	}
	return found
}

func all() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

type status struct {
	name    string
	state   byte
	parent  int
	started uint64
}

// readStatus parses /proc/PID/stat. The name is in brackets and may itself
// hold blanks and brackets, so fields are counted from the last bracket.
func readStatus(pid int) (status, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return status{}, err
	}
	return parseStatus(string(content))
}

func parseStatus(content string) (status, error) {
	open, end := strings.IndexByte(content, '('), strings.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return status{}, fmt.Errorf("unexpected process status %q", content)
	}
	fields := strings.Fields(content[end+1:])
	if len(fields) < 20 {
		return status{}, fmt.Errorf("unexpected process status %q", content)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return status{}, fmt.Errorf("unexpected parent in process status: %w", err)
	}
	started, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return status{}, fmt.Errorf("unexpected start time in process status: %w", err)
	}
	return status{name: content[open+1 : end], state: fields[0][0], parent: parent, started: started}, nil
}
