package smi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold.dev/playground/internal/card"
)

func inventory() card.Inventory {
	model := card.Model{ID: "rtx4090", Name: "NVIDIA GeForce RTX 4090", ComputeCapability: "8.9", MemoryMiB: 24564, PowerWatts: 450, ECC: "Off"}
	return card.Inventory{Driver: card.Driver{Version: "580.95.05", CUDA: "13.0"}, Cards: []card.Card{
		{Model: model, Index: 0, UUID: "GPU-a", Bus: "00000000:10:00.0"},
		{Model: model, Index: 1, UUID: "GPU-b", Bus: "00000000:21:00.0"},
		{Model: model, Index: 2, UUID: "GPU-c", Bus: "00000000:32:00.0"},
	}}
}

func TestAnswers(t *testing.T) {
	const core = "--query-gpu=index,uuid,name,memory.total,driver_version"
	for _, test := range []struct {
		name, visible, scenario string
		arguments               []string
		output                  string
		exit                    int
	}{
		{"the allocated cards are numbered from 0 in the order of the bus", "GPU-c,GPU-b", `{}`, []string{core, "--format=csv,noheader,nounits"},
			"0, GPU-b, NVIDIA GeForce RTX 4090, 24564, 580.95.05\n1, GPU-c, NVIDIA GeForce RTX 4090, 24564, 580.95.05\n", 0},
		{"units and a header are printed unless they are left out", "GPU-a", `{}`, []string{"--query-gpu=memory.total,power.draw,utilization.gpu,temperature.gpu", "--format=csv"},
			"memory.total [MiB], power.draw [W], utilization.gpu [%], temperature.gpu\n24564 MiB, 22.50 W, 0 %, 34\n", 0},
		{"an option may have its value in the next argument", "GPU-a", `{}`, []string{"--query-gpu", "index", "--format", "csv,noheader"}, "0\n", 0},
		{"one unknown field fails the whole call", "GPU-a", `{}`, []string{"--query-gpu=index,xyz", "--format=csv"}, "Field \"xyz\" is not a valid field to query.\n\n", 2},
		{"an old driver does not know a new field", "GPU-a", `{"unknownFields":["compute_cap"]}`, []string{"--query-gpu=compute_cap", "--format=csv"}, "Field \"compute_cap\" is not a valid field to query.\n\n", 2},
		{"a query needs a format", "GPU-a", `{}`, []string{core}, badArguments, 2},
		{"an unknown option is refused", "GPU-a", `{}`, []string{"--nonsense"}, badArguments, 2},
		{"the list names cards and identities", "GPU-b", `{}`, []string{"-L"}, "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-b)\n", 0},
		{"without a variable there are no devices", "", `{}`, []string{"-L"}, "No devices were found\n", 6},
		{"a scenario hides cards", "GPU-a,GPU-b", `{"show":1}`, []string{"-L"}, "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-a)\n", 0},
		{"a scenario shows cards of others", "GPU-b", `{"show":2}`, []string{"-L"}, "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-b)\nGPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-a)\n", 0},
		{"a scenario shows another model", "GPU-a,GPU-b", `{"cards":{"1":{"name":"NVIDIA A10","memory.total":"23028"}}}`, []string{"--query-gpu=name,memory.total", "--format=csv,noheader,nounits"},
			"NVIDIA GeForce RTX 4090, 24564\nNVIDIA A10, 23028\n", 0},
		{"used memory lowers free memory", "GPU-a", `{"allCards":{"memory.used":"20000"}}`, []string{"--query-gpu=memory.used,memory.free", "--format=csv,noheader"}, "20000 MiB, 4164 MiB\n", 0},
		{"a value that is no number has no unit", "GPU-a", `{"allCards":{"power.draw":"[Unknown Error]"}}`, []string{"--query-gpu=power.draw", "--format=csv,noheader"}, "[Unknown Error]\n", 0},
		{"a card that works draws power and is not idle", "GPU-a", `{"allCards":{"utilization.gpu":"100"}}`,
			[]string{"--query-gpu=utilization.gpu,power.draw,pstate,clocks.sm,clocks_event_reasons.active", "--format=csv,noheader"}, "100 %, 450.00 W, P2, 2520 MHz, 0x0000000000000000\n", 0},
		{"what is given goes before what follows", "GPU-a", `{"allCards":{"utilization.gpu":"100","power.draw":"60"},"cards":{"0":{"temperature":"91","clocks_event_reasons.active":"0x40"}}}`,
			[]string{"--query-gpu=power.draw,temperature.gpu,clocks_event_reasons.active", "--format=csv,noheader"}, "60 W, 91, 0x40\n", 0},
		{"errors of the memory are counted by ECC", "GPU-a,GPU-b", `{"cards":{"GPU-b":{"ecc.errors.uncorrected.volatile.total":"3","remapped_rows.pending":"Yes"}}}`,
			[]string{"--query-gpu=ecc.errors.uncorrected.volatile.total,remapped_rows.pending", "--format=csv,noheader"}, "[N/A], [N/A]\n3, Yes\n", 0},
		{"a card without ECC counts no errors", "GPU-a", `{}`, []string{"--query-gpu=ecc.mode.current,ecc.errors.uncorrected.volatile.total", "--format=csv,noheader"}, "Disabled, [N/A]\n", 0},
		{"no process is an empty answer", "GPU-a", `{}`, []string{"--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv,noheader,nounits"}, "", 0},
		{"processes are those of the visible cards", "GPU-a", `{"processes":[{"card":"0","pid":7,"name":"python","usedMemory":"512"},{"card":"1","pid":8,"name":"other","usedMemory":"1"}]}`,
			[]string{"--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"}, "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-a, 7, python, 512 MiB\n", 0},
		{"a failure replaces the answer", "GPU-a", `{"failure":{"name":"version-mismatch"}}`, []string{"-L"}, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n", 18},
		{"a failure of one's own", "GPU-a", `{"failure":{"text":"boom","exitCode":42}}`, nil, "boom\n", 42},
		{"a corrupted infoROM is a warning after the answer", "GPU-a", `{"failure":{"name":"inforom-corrupted"}}`, []string{"-L"}, "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-a)\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n", 14},
		{"a failure of some calls leaves the others", "GPU-a", `{"failure":{"text":"boom","exitCode":1},"failOnly":["topo"]}`, []string{"-L"}, "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-a)\n", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			scenario, err := ParseScenario([]byte(test.scenario))
			if err != nil {
				t.Fatal(err)
			}
			got := Call{Arguments: test.arguments, Visible: test.visible, Inventory: inventory(), Scenario: scenario}.Answer()
			if got.Output != test.output || got.ExitCode != test.exit {
				t.Errorf("got exit %d\n%s\nwant exit %d\n%s", got.ExitCode, got.Output, test.exit, test.output)
			}
		})
	}
}

func TestEveryFieldOfThePreflightQueriesIsKnown(t *testing.T) {
	fields := "pci.bus_id,memory.used,memory.reserved,utilization.gpu,utilization.memory,temperature.gpu,power.draw,power.limit,pstate,compute_mode,mig.mode.current,ecc.mode.current,compute_cap,ecc.errors.uncorrected.volatile.total,retired_pages.pending,remapped_rows.pending,remapped_rows.failure,clocks_event_reasons.active,persistence_mode,pcie.link.gen.current,pcie.link.width.max,fabric.state,gpu_recovery_action"
	got := Call{Arguments: []string{"--query-gpu=" + fields, "--format=csv,noheader,nounits"}, Visible: "all", Inventory: inventory()}.Answer()
	if got.ExitCode != 0 || strings.Count(got.Output, "\n") != 3 {
		t.Errorf("got exit %d\n%s", got.ExitCode, got.Output)
	}
}

func TestTheTableHasLinesOfOneWidth(t *testing.T) {
	got := Call{Visible: "all", Inventory: inventory(), Now: time.Unix(0, 0)}.Answer()
	for line := range strings.Lines(got.Output) {
		if strings.HasPrefix(line, "|") && len(line) != 92 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

func TestAMisspeltScenarioIsRefused(t *testing.T) {
	for _, text := range []string{`{"hangs":true}`, `{"failure":{"name":"nonsense"}}`, `[]`,
		`{"allCards":{"temprature.gpu":"90"}}`, `{"cards":{"0":{"utilization":"90"}}}`, `{"allCards":{"utilization.gpu":90}}`,
		`{"allCards":{"utilization.gpu":{"steps":[]}}}`, `{"allCards":{"utilization.gpu":{"steps":[{"from":5,"value":"1"},{"from":5,"value":"2"}]}}}`,
		`{"allCards":{"utilization.gpu":{"steps":[{"from":0,"value":"1"},{"from":60,"value":"2"}],"every":60}}}`,
		`{"allCards":{"utilization.gpu":{"steps":[{"after":0,"value":"1"}]}}}`} {
		if _, err := ParseScenario([]byte(text)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestValuesFollowEachOtherFromWhenTheScenarioWasWritten(t *testing.T) {
	const scenario = `{
		"allCards": {"utilization.gpu": {"steps": [{"from": 0, "value": "95"}, {"from": 40, "value": "0"}], "every": 60}},
		"cards": {"0": {"temperature.gpu": {"steps": [{"from": 30, "value": "92"}]}}}
	}`
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "scenario.json"), []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadScenario(directory)
	if err != nil {
		t.Fatal(err)
	}
	for seconds, want := range map[int]string{0: "95, 34", 29: "95, 34", 30: "95, 92", 40: "0, 92", 59: "0, 92", 60: "95, 92", 100: "0, 92", 3600: "95, 92"} {
		call := Call{Arguments: []string{"--query-gpu=utilization.gpu,temperature.gpu", "--format=csv,noheader,nounits"}, Visible: "GPU-a", Inventory: inventory(), Scenario: read,
			Now: read.Written.Add(time.Duration(seconds) * time.Second)}
		if got := call.Answer(); got.Output != want+"\n" {
			t.Errorf("after %d s: %swant %s", seconds, got.Output, want)
		}
	}
}
