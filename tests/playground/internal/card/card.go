// Package card knows the simulated cards: their facts from the catalog, which
// node has which, and the node labels of GPU feature discovery. Only Load does
// I/O.
package card

import (
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Model is one line of the catalog, in the words of nvidia-smi.
type Model struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	Label             string `json:"label"`
	Family            string `json:"family"`
	ComputeCapability string `json:"computeCapability"`
	MemoryMiB         int    `json:"memoryMiB"`
	PowerWatts        int    `json:"powerWatts"`
	// ECC is "N/A" without ECC, "Off" when it is off, else a count of errors.
	ECC string `json:"ecc"`
	MIG bool   `json:"mig"`
}

// Card is one simulated device.
type Card struct {
	Model
	// Index is the number on the node, as in /dev/nvidiaN.
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	Bus   string `json:"bus"`
}

// Driver is the simulated driver of all nodes.
type Driver struct {
	Version string `json:"version"`
	CUDA    string `json:"cuda"`
}

// Inventory is what a node has; nvidia-smi reads it from a file.
type Inventory struct {
	Driver Driver `json:"driver"`
	Cards  []Card `json:"cards"`
}

// Batch is so many cards of one model; a node has one batch.
type Batch struct {
	ID    string
	Count int
}

// Catalog is the models by id.
type Catalog map[string]Model

// Load reads the catalog file.
func Load(path string) (Catalog, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("failed to open the card catalog (--catalog): %w", err)
	}
	defer file.Close()
	catalog, err := Parse(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read the card catalog %s: %w", path, err)
	}
	return catalog, nil
}

// Parse reads the columns it needs by name and ignores the others.
func Parse(reader io.Reader) (Catalog, error) {
	lines := csv.NewReader(reader)
	header, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("no header line: %w", err)
	}
	columns := map[string]int{}
	for index, name := range header {
		columns[name] = index
	}
	needed := []string{"id", "nvidia_smi_name", "gfd_product_label", "gfd_family", "compute_capability", "memory_mib_nvidia_smi", "nvsmi_power_cap_w", "nvsmi_ecc_column", "mig_max_instances"}
	for _, name := range needed {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("column %s is missing", name)
		}
	}
	catalog := Catalog{}
	for {
		line, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return catalog, nil
		}
		if err != nil {
			return nil, err
		}
		column := func(name string) string { return strings.TrimSpace(line[columns[name]]) }
		memory, err := strconv.Atoi(column("memory_mib_nvidia_smi"))
		if err != nil {
			return nil, fmt.Errorf("card %s: memory in MiB: %w", column("id"), err)
		}
		// A card without a known power cap prints none.
		power, _ := strconv.Atoi(column("nvsmi_power_cap_w"))
		catalog[column("id")] = Model{
			ID: column("id"), Name: column("nvidia_smi_name"), Label: column("gfd_product_label"),
			Family: column("gfd_family"), ComputeCapability: column("compute_capability"),
			MemoryMiB: memory, PowerWatts: power, ECC: column("nvsmi_ecc_column"),
			MIG: column("mig_max_instances") != "0" && column("mig_max_instances") != "",
		}
	}
}

// ParseBatches reads `rtx4090:4,h100-sxm:8`; `none` is a node without cards.
func ParseBatches(text string) ([]Batch, error) {
	var batches []Batch
	for _, part := range strings.Split(text, ",") {
		id, count, counted := strings.Cut(strings.TrimSpace(part), ":")
		batch := Batch{ID: id, Count: 1}
		if id == "none" {
			batch.Count = 0
		} else if counted {
			number, err := strconv.Atoi(count)
			if err != nil || number < 0 || number > 64 {
				return nil, fmt.Errorf("cards %q: the count must be a number from 0 to 64", part)
			}
			batch.Count = number
		}
		batches = append(batches, batch)
	}
	return batches, nil
}

// ParseDriver reads `580.95.05/13.0`: driver version and newest CUDA of it.
func ParseDriver(text string) (Driver, error) {
	version, cuda, ok := strings.Cut(text, "/")
	if !ok || len(strings.Split(version, ".")) < 2 || len(strings.Split(cuda, ".")) != 2 {
		return Driver{}, fmt.Errorf("driver %q: write it as 580.95.05/13.0, driver version and CUDA version", text)
	}
	return Driver{Version: version, CUDA: cuda}, nil
}

// Stock makes the cards of a node. UUIDs depend on the playground and the node
// only, so that a second `up` gives the same.
func (c Catalog) Stock(playground, node string, batch Batch, driver Driver) (Inventory, error) {
	inventory := Inventory{Driver: driver, Cards: []Card{}}
	if batch.Count == 0 {
		return inventory, nil
	}
	model, ok := c[batch.ID]
	if !ok {
		known := make([]string, 0, len(c))
		for id := range c {
			known = append(known, id)
		}
		slices.Sort(known)
		return Inventory{}, fmt.Errorf("card %q is not in the catalog; it has: %s", batch.ID, strings.Join(known, " "))
	}
	for index := range batch.Count {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", playground, node, index))
		inventory.Cards = append(inventory.Cards, Card{
			Model: model, Index: index,
			UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
			Bus:  fmt.Sprintf("00000000:%02X:00.0", 0x10+index*0x11%0xe0),
		})
	}
	return inventory, nil
}

// Labels are what GPU feature discovery sets on a node.
func (i Inventory) Labels() map[string]string {
	if len(i.Cards) == 0 {
		return nil
	}
	first := i.Cards[0]
	major, minor, _ := strings.Cut(first.ComputeCapability, ".")
	driver := append(strings.SplitN(i.Driver.Version, ".", 3), "", "")
	cudaMajor, cudaMinor, _ := strings.Cut(i.Driver.CUDA, ".")
	labels := map[string]string{
		"feature.node.kubernetes.io/pci-10de.present": "true",
		"nvidia.com/gpu.present":                      "true",
		"nvidia.com/gpu.product":                      first.Label,
		"nvidia.com/gpu.memory":                       strconv.Itoa(first.MemoryMiB),
		"nvidia.com/gpu.count":                        strconv.Itoa(len(i.Cards)),
		"nvidia.com/gpu.replicas":                     "1",
		"nvidia.com/gpu.sharing-strategy":             "none",
		"nvidia.com/gpu.family":                       first.Family,
		"nvidia.com/gpu.compute.major":                major,
		"nvidia.com/gpu.compute.minor":                minor,
		"nvidia.com/gpu.machine":                      "playground",
		"nvidia.com/gpu.mode":                         "compute",
		"nvidia.com/mig.capable":                      strconv.FormatBool(first.MIG),
		"nvidia.com/mps.capable":                      "false",
		"nvidia.com/cuda.driver-version.full":         i.Driver.Version,
		"nvidia.com/cuda.driver-version.major":        driver[0],
		"nvidia.com/cuda.driver-version.minor":        driver[1],
		"nvidia.com/cuda.runtime-version.full":        i.Driver.CUDA,
		"nvidia.com/cuda.runtime-version.major":       cudaMajor,
		"nvidia.com/cuda.runtime-version.minor":       cudaMinor,
		"nvidia.com/cuda.driver.major":                driver[0],
		"nvidia.com/cuda.driver.minor":                driver[1],
		"nvidia.com/cuda.runtime.major":               cudaMajor,
		"nvidia.com/cuda.runtime.minor":               cudaMinor,
	}
	if driver[2] != "" {
		labels["nvidia.com/cuda.driver-version.revision"] = driver[2]
		labels["nvidia.com/cuda.driver.rev"] = driver[2]
	}
	return labels
}
