package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Instances of inotify that a playground takes, as counted on running ones.
const (
	inotifyOfControlPlane = 13
	inotifyOfNode         = 8
)

// enoughInotify says before anything is started that components would fail:
// they only tell `too many open files`, and containerd then serves no kubelet.
func enoughInotify(nodes int) error {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read how many inotify instances a user may have: %w", err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("failed to read %s: %w", file, err)
	}
	used, need := inotifyInUse(), inotifyOfControlPlane+nodes*inotifyOfNode
	if used+need <= most {
		return nil
	}
	return fmt.Errorf("this playground needs %d inotify instances, and of the %d that a user may have %d are in use: "+
		"take other playgrounds down or raise the limit (sysctl fs.inotify.max_user_instances=%d)", need, most, used, 4*(used+need))
}

// inotifyInUse counts what the processes that we may look into hold; those are
// at least this user's.
func inotifyInUse() int {
	used := 0
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, each := range descriptors {
		if target, err := os.Readlink(each); err == nil && target == "anon_inode:inotify" {
			used++
		}
	}
	return used
}
