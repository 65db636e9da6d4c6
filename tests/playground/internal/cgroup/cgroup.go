// Package cgroup keeps one control-group subtree per playground. Containers
// cannot leave it, so it finds every process of a playground, whatever was
// killed in which order.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold.dev/playground/internal/process"
)

// Root is the playground's subtree in every hierarchy.
func Root(playground string) string { return "leasehold-" + playground }

type hierarchy struct {
	mount   string
	unified bool
	// controllers as in the mount options: "cpuset", "name=systemd".
	controllers []string
}

// Create makes the group in the hierarchies: all of them, or only those with
// one of the named controllers.
func Create(group string, controllers ...string) error {
	for _, hierarchy := range hierarchies() {
		if !hierarchy.has(controllers) {
			continue
		}
		path := hierarchy.mount
		for _, part := range strings.Split(group, "/") {
			path = filepath.Join(path, part)
			if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("failed to create control group %s: %w", path, err)
			}
			if err := hierarchy.inherit(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// Join moves the calling process into the group wherever the group exists.
func Join(group string) error {
	for _, hierarchy := range hierarchies() {
		procs := filepath.Join(hierarchy.mount, group, "cgroup.procs")
		if _, err := os.Stat(procs); err != nil {
			continue
		}
		if err := os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("failed to join control group %s: %w", group, err)
		}
	}
	return nil
}

// Processes lists the living processes anywhere in the playground's subtree.
func Processes(playground string) []process.Identity {
	seen := map[int]bool{}
	var found []process.Identity
	for _, group := range Groups(playground) {
		content, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, line := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(line)
			if err != nil || pid <= 1 || seen[pid] {
				continue
			}
			seen[pid] = true
			if identity, err := process.Identify(pid); err == nil && identity.Alive() {
				found = append(found, identity)
			}
		}
	}
	return found
}

// Groups lists the directories of the playground's subtree, deepest first.
func Groups(playground string) []string {
	var groups []string
	for _, hierarchy := range hierarchies() {
		root := filepath.Join(hierarchy.mount, Root(playground))
		var below []string
		// A group that vanishes during the walk needs no further care.
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				below = append(below, path)
			}
			return nil
		})
		slices.Reverse(below)
		groups = append(groups, below...)
	}
	return groups
}

// Remove deletes the playground's subtree. The kernel refuses while an ended
// process is not yet reaped, hence the retries.
func Remove(playground string) error {
	var last error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		groups := Groups(playground)
		if len(groups) == 0 {
			return nil
		}
		for _, group := range groups {
			if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = err
			}
		}
	}
	if len(Groups(playground)) == 0 {
		return nil
	}
	return fmt.Errorf("failed to remove the control groups of %s: %w", playground, last)
}

func (h hierarchy) has(controllers []string) bool {
	if len(controllers) == 0 {
		return true
	}
	return h.unified && len(hierarchies()) == 1 || slices.ContainsFunc(controllers, func(name string) bool { return slices.Contains(h.controllers, name) })
}

// inherit gives a new group what it needs before a process may enter: in the
// first version a cpuset starts empty, in the second controllers are off.
func (h hierarchy) inherit(path string) error {
	if h.unified {
		// Refused where a controller is not available; the kubelet then says so.
		for _, controller := range []string{"+cpu", "+cpuset", "+io", "+memory", "+pids"} {
			_ = os.WriteFile(filepath.Join(filepath.Dir(path), "cgroup.subtree_control"), []byte(controller), 0)
		}
		return nil
	}
	if !slices.Contains(h.controllers, "cpuset") {
		return nil
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(path, name), value, 0); err != nil {
			return fmt.Errorf("failed to set %s of %s: %w", name, path, err)
		}
	}
	return nil
}

func hierarchies() []hierarchy {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var found []hierarchy
	for _, line := range strings.Split(string(content), "\n") {
		before, after, ok := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 3 || !strings.HasPrefix(kind[0], "cgroup") {
			continue
		}
		found = append(found, hierarchy{
			mount:       place[4],
			unified:     kind[0] == "cgroup2",
			controllers: strings.Split(kind[2], ","),
		})
	}
	return found
}
