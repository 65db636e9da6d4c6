package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leasehold.dev/playground/internal/cgroup"
	"leasehold.dev/playground/internal/network"
	"leasehold.dev/playground/internal/place"
	"leasehold.dev/playground/internal/process"
)

// down ends everything, from the record and from what the id finds, so that it
// also works after an interrupted `up` and after any number of kills.
func down(directory string, keep bool) error {
	at, err := place.At(directory)
	if err != nil {
		return err
	}
	record, exists, err := at.Read()
	if err != nil {
		// A damaged record must not keep what it recorded alive.
		fmt.Fprintln(os.Stderr, "warning:", err)
	}
	var nodes []process.Identity
	for _, node := range record.Nodes {
		nodes = append(nodes, node.Init)
	}
	// A node's first process takes its whole PID namespace with it.
	process.Stop(nodes, 0)
	process.Stop(slices.DeleteFunc(record.Processes, func(identity process.Identity) bool { return !identity.Alive() }), 5*time.Second)
	for range 3 {
		left := processes(at)
		if len(left) == 0 {
			break
		}
		process.Stop(left, 0)
	}
	failures := []error{unmount(at), network.Remove(at.ID), cgroup.Remove(at.ID)}
	if exists || err != nil {
		failures = append(failures, clear(at, keep))
	}
	if left := leftovers(at); len(left) > 0 {
		failures = append(failures, fmt.Errorf("still there: %s", strings.Join(left, ", ")))
	}
	return errors.Join(failures...)
}

// clear deletes the directory; the logs are all that is worth keeping.
func clear(at place.Place, keep bool) error {
	if !keep {
		if err := os.RemoveAll(at.Directory); err != nil {
			return fmt.Errorf("failed to delete %s: %w", at.Directory, err)
		}
		return nil
	}
	for _, node := range globs(at.Path("nodes", "*", "log")) {
		if err := os.Rename(node, at.Path("logs", filepath.Base(filepath.Dir(node)))); err != nil {
			return fmt.Errorf("failed to keep the logs of a node: %w", err)
		}
	}
	entries, err := os.ReadDir(at.Directory)
	if err != nil {
		return fmt.Errorf("failed to list %s: %w", at.Directory, err)
	}
	for _, entry := range entries {
		if entry.Name() == "logs" || entry.Name() == "audit.log" {
			continue
		}
		if err := os.RemoveAll(at.Path(entry.Name())); err != nil {
			return fmt.Errorf("failed to delete %s: %w", at.Path(entry.Name()), err)
		}
	}
	return nil
}

func globs(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}

// processes lists every living process of the playground: by control group, by
// environment, and by what its mount namespace shows.
func processes(at place.Place) []process.Identity {
	seen := map[int]bool{}
	var found []process.Identity
	for _, identity := range slices.Concat(cgroup.Processes(at.ID), process.Marked(at.ID), process.Mounting(at.Path("nodes"))) {
		if !seen[identity.PID] && identity.PID != os.Getpid() {
			seen[identity.PID] = true
			found = append(found, identity)
		}
	}
	return found
}

// mounts lists what is mounted below the directory on the host, newest first.
func mounts(at place.Place) []string {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], at.Directory+"/") {
			found = append(found, fields[4])
		}
	}
	slices.Reverse(found)
	return found
}

func unmount(at place.Place) error {
	var failures []error
	for _, mount := range mounts(at) {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			failures = append(failures, fmt.Errorf("failed to unmount %s: %w", mount, err))
		}
	}
	return errors.Join(failures...)
}

// leftovers describes everything of the playground that the machine still has,
// whether it should or not.
func leftovers(at place.Place) []string {
	var found []string
	for _, identity := range processes(at) {
		found = append(found, fmt.Sprintf("process %d (%s)", identity.PID, identity.Name))
	}
	for _, mount := range mounts(at) {
		found = append(found, "mount "+mount)
	}
	for _, name := range network.Interfaces(at.ID) {
		found = append(found, "interface "+name)
	}
	for _, group := range cgroup.Groups(at.ID) {
		found = append(found, "control group "+group)
	}
	return found
}

// missing names the recorded processes that do not run.
func missing(record place.Record) []string {
	var dead []string
	for _, identity := range record.Processes {
		if !identity.Alive() {
			dead = append(dead, identity.Name)
		}
	}
	for _, node := range record.Nodes {
		if !node.Init.Alive() {
			dead = append(dead, node.Name)
		}
	}
	return dead
}
