// Command nvidia-smi answers for simulated cards inside containers of the
// playground. The cards and the scenario are read at every call.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"leasehold.dev/playground/internal/smi"
)

func main() {
	for {
		every := answer()
		if every == 0 {
			return
		}
		time.Sleep(every)
	}
}

func answer() time.Duration {
	directory := smi.Directory
	if other := os.Getenv("LEASEHOLD_PLAYGROUND_CARDS"); other != "" {
		directory = other
	}
	call := smi.Call{Arguments: os.Args[1:], Visible: os.Getenv("NVIDIA_VISIBLE_DEVICES"), Now: time.Now()}
	content, err := os.ReadFile(filepath.Join(directory, "cards.json"))
	if err == nil {
		err = json.Unmarshal(content, &call.Inventory)
	}
	if err == nil {
		call.Scenario, err = smi.ReadScenario(directory)
	}
	if err != nil {
		// Not a text of the real program, so that nobody diagnoses it as one.
		fmt.Fprintln(os.Stderr, "playground nvidia-smi:", err)
		os.Exit(70)
	}
	got := call.Answer()
	if got.Hang {
		for {
			time.Sleep(time.Hour)
		}
	}
	time.Sleep(got.Delay)
	fmt.Fprint(os.Stdout, got.Output)
	fmt.Fprint(os.Stderr, got.Errors)
	if got.ExitCode != 0 {
		os.Exit(got.ExitCode)
	}
	return got.Every
}
