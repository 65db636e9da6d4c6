package smi

import (
	"fmt"
	"strings"
)

// table is the output without arguments. Names are cut as the real one cuts
// them, which is why nothing should read them from here.
func (c Call) table(cards []seen) string {
	var text strings.Builder
	d := c.driver()
	line := "+-----------------------------------------+------------------------+----------------------+\n"
	fmt.Fprintf(&text, "%s\n", c.Now.Format("Mon Jan _2 15:04:05 2006"))
	fmt.Fprintf(&text, "+-----------------------------------------------------------------------------------------+\n")
	fmt.Fprintf(&text, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", d.Version, d.Version, d.CUDA)
	text.WriteString(line)
	text.WriteString("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n")
	text.WriteString("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n")
	text.WriteString("|                                         |                        |               MIG M. |\n")
	text.WriteString("|=========================================+========================+======================|\n")
	for _, each := range cards {
		v := each.values
		name := v["name"]
		if len(name) > 22 {
			name = name[:19] + "..."
		}
		ecc := v["ecc.errors.uncorrected.volatile.total"]
		if v["ecc.mode.current"] == "Disabled" {
			ecc = "Off"
		}
		fmt.Fprintf(&text, "| %3d  %-22s %11s | %16s %5s | %20s |\n", each.position, name, onOff(v["persistence_mode"]), v["pci.bus_id"], onOff(v["display_active"]), bare(ecc))
		fmt.Fprintf(&text, "| %3s  %3sC    %-3s %22s | %22s | %8s %11s |\n", bare(v["fan.speed"]), bare(v["temperature.gpu"]), v["pstate"],
			whole(v["power.draw"])+"W / "+whole(v["power.limit"])+"W",
			fmt.Sprintf("%sMiB / %sMiB", v["memory.used"], v["memory.total"]), bare(v["utilization.gpu"])+"%", v["compute_mode"])
		fmt.Fprintf(&text, "| %39s | %22s | %20s |\n", "", "", bare(v["mig.mode.current"]))
		text.WriteString(line)
	}
	text.WriteString("\n+-----------------------------------------------------------------------------------------+\n")
	text.WriteString("| Processes:                                                                              |\n")
	text.WriteString("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n")
	text.WriteString("|        ID   ID                                                               Usage      |\n")
	text.WriteString("|=========================================================================================|\n")
	any := false
	for _, each := range cards {
		for _, process := range c.on(each) {
			any = true
			fmt.Fprintf(&text, "| %4d   N/A  N/A %16d      C   %-34.34s %8sMiB |\n", each.position, process.PID, process.Name, process.UsedMemory)
		}
	}
	if !any {
		text.WriteString("|  No running processes found                                                             |\n")
	}
	text.WriteString("+-----------------------------------------------------------------------------------------+\n")
	return text.String()
}

func onOff(value string) string {
	if value == "Enabled" {
		return "On"
	}
	return "Off"
}

func bare(value string) string { return strings.Trim(value, "[]") }

func whole(value string) string {
	before, _, _ := strings.Cut(bare(value), ".")
	return before
}

// full is the part of `-q` that people look at.
func (c Call) full(cards []seen) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n==============NVSMI LOG==============\n\nTimestamp                                 : %s\nDriver Version                            : %s\nCUDA Version                              : %s\n\nAttached GPUs                             : %d\n",
		c.Now.Format("Mon Jan _2 15:04:05 2006"), c.driver().Version, c.driver().CUDA, len(cards))
	for _, each := range cards {
		v := each.values
		fmt.Fprintf(&text, "GPU %s\n    Product Name                          : %s\n    GPU UUID                              : %s\n    FB Memory Usage\n        Total                             : %s MiB\n        Used                              : %s MiB\n",
			v["pci.bus_id"], v["name"], v["uuid"], v["memory.total"], v["memory.used"])
	}
	return text.String()
}

func (c Call) topology(cards []seen) string {
	if c.Scenario.Topology != "" {
		return strings.TrimSuffix(c.Scenario.Topology, "\n") + "\n"
	}
	var text strings.Builder
	for _, each := range cards {
		fmt.Fprintf(&text, "\t\x1b[4mGPU%d", each.position)
	}
	text.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n")
	for _, row := range cards {
		fmt.Fprintf(&text, "GPU%d", row.position)
		for _, column := range cards {
			cell := "PHB"
			if row.position == column.position {
				cell = " X "
			}
			text.WriteString("\t" + cell)
		}
		text.WriteString("\t0-63\t0\t\tN/A\n")
	}
	text.WriteString("\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n  PIX  = Connection traversing at most a single PCIe bridge\n  NV#  = Connection traversing a bonded set of # NVLinks\n")
	return text.String()
}
