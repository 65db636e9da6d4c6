// Package smi answers as nvidia-smi does, from the cards of a node and a
// scenario that can be changed while everything runs.
//
// scenario.go has what can be scripted, value.go values that change by
// themselves, answer.go the command line, fields.go what is known of a card,
// table.go the output for people.
package smi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leasehold.dev/playground/internal/card"
)

// Directory is where containers find the cards and the scenario.
const Directory = "/usr/share/leasehold-playground"

// Scenario is what shall differ from healthy cards. The zero value is healthy.
type Scenario struct {
	// WithoutProgram leaves nvidia-smi out of containers that start from now on.
	WithoutProgram bool `json:"withoutProgram,omitempty"`
	// WithoutDevices leaves the device files out of them.
	WithoutDevices bool `json:"withoutDevices,omitempty"`
	// Unhealthy are indices or UUIDs that the device plugin reports as sick.
	Unhealthy []string `json:"unhealthy,omitempty"`

	// Hang never answers. SleepSeconds answers late.
	Hang         bool    `json:"hang,omitempty"`
	SleepSeconds float64 `json:"sleepSeconds,omitempty"`
	// Failure answers with this instead; one of Failures by name, or its own.
	Failure *Failure `json:"failure,omitempty"`
	// FailOnly limits the failure to calls with one of these texts in their
	// arguments.
	FailOnly []string `json:"failOnly,omitempty"`

	// Driver differs from what the node's labels say.
	Driver *card.Driver `json:"driver,omitempty"`
	// Show is how many cards are seen: fewer than were allocated, or others of
	// the node beside them.
	Show *int `json:"show,omitempty"`
	// AllCards are field values of every card: {"memory.used": "20000"}. Fields
	// that follow from them (free memory; power, clocks and state of a card that
	// works) do so unless they are given too.
	AllCards map[string]Value `json:"allCards,omitempty"`
	// Cards are field values by index on the node or UUID; they go before
	// AllCards.
	Cards map[string]map[string]Value `json:"cards,omitempty"`
	// UnknownFields are fields that this driver does not know.
	UnknownFields []string `json:"unknownFields,omitempty"`
	// Processes use cards.
	Processes []Process `json:"processes,omitempty"`
	// Topology is the whole answer to `topo -m`.
	Topology string `json:"topology,omitempty"`

	// Written is when the scenario began to hold.
	Written time.Time `json:"-"`
}

// Failure is a text and an exit code.
type Failure struct {
	// Name is one of Failures; Text and ExitCode then are its own.
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
	ExitCode int    `json:"exitCode,omitempty"`
	// Stderr writes the text to standard error; nvidia-smi writes to standard
	// output.
	Stderr bool `json:"stderr,omitempty"`
	// Warning prints the answer too, as a corrupted infoROM does.
	Warning bool `json:"warning,omitempty"`
}

// Process is a compute process on a card.
type Process struct {
	// Card is an index on the node or a UUID.
	Card       string `json:"card"`
	PID        int    `json:"pid"`
	Name       string `json:"name"`
	UsedMemory string `json:"usedMemory"`
}

// Failures are what nvidia-smi really prints, by name.
var Failures = map[string]Failure{
	"not-supported":            {ExitCode: 3, Text: "Not Supported"},
	"insufficient-permissions": {ExitCode: 4, Text: "Insufficient Permissions"},
	"no-devices":               {ExitCode: 6, Text: "No devices were found"},
	"external-power-missing":   {ExitCode: 8, Text: "Failed to initialize NVML: Insufficient External Power"},
	"driver-not-loaded":        {ExitCode: 9, Text: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."},
	"interrupt-problem":        {ExitCode: 10, Text: "Failed to initialize NVML: GPU interrupt problem"},
	"library-missing":          {ExitCode: 12, Text: "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system."},
	"function-missing":         {ExitCode: 13, Text: "Failed to initialize NVML: Function Not Found"},
	"inforom-corrupted":        {ExitCode: 14, Text: "WARNING: infoROM is corrupted at gpu 0000:3B:00.0", Warning: true},
	"gpu-lost":                 {ExitCode: 15, Text: "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU"},
	"version-mismatch":         {ExitCode: 18, Text: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159"},
	"nvml-unknown-error":       {ExitCode: 255, Text: "Failed to initialize NVML: Unknown Error"},
	"handle-unknown-error":     {ExitCode: 255, Text: "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"},
	"blocked-by-system":        {ExitCode: 17, Text: "Failed to initialize NVML: GPU access blocked by the operating system"},
}

// ParseScenario reads a scenario and refuses what it would not understand.
func ParseScenario(content []byte) (Scenario, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var scenario Scenario
	if err := decoder.Decode(&scenario); err != nil {
		return Scenario{}, fmt.Errorf("failed to read the scenario: %w", err)
	}
	if failure := scenario.Failure; failure != nil && failure.Name != "" {
		named, ok := Failures[failure.Name]
		if !ok {
			names := make([]string, 0, len(Failures))
			for name := range Failures {
				names = append(names, name)
			}
			slices.Sort(names)
			return Scenario{}, fmt.Errorf("failure %q is unknown; known are: %s", failure.Name, strings.Join(names, " "))
		}
		named.Name, named.Stderr = failure.Name, failure.Stderr
		scenario.Failure = &named
	}
	for _, changes := range append(slices.Collect(maps.Values(scenario.Cards)), scenario.AllCards) {
		for field := range changes {
			if !isField(field) {
				return Scenario{}, fmt.Errorf("no card has a field %q; fields are those of nvidia-smi --help-query-gpu", field)
			}
		}
	}
	return scenario, nil
}

// ReadScenario reads the scenario of a directory; without a file all is well.
func ReadScenario(directory string) (Scenario, error) {
	file, err := os.Open(filepath.Join(directory, "scenario.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Scenario{}, nil
	}
	if err != nil {
		return Scenario{}, fmt.Errorf("failed to open the scenario: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("failed to read the scenario: %w", err)
	}
	about, err := file.Stat()
	if err != nil {
		return Scenario{}, fmt.Errorf("failed to ask when the scenario was written: %w", err)
	}
	scenario, err := ParseScenario(content)
	scenario.Written = about.ModTime()
	return scenario, err
}
