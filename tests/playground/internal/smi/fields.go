package smi

import (
	"fmt"
	"strconv"
	"strings"

	"leasehold.dev/playground/internal/card"
)

// seen is a card as a container sees it.
type seen struct {
	card.Card
	// position is its number in the container.
	position int
	values   map[string]string
}

// names maps other spellings of a field to the one that is printed.
var names = map[string]string{
	"gpu_name": "name", "gpu_uuid": "uuid", "gpu_serial": "serial", "gpu_bus_id": "pci.bus_id",
	"temperature": "temperature.gpu", "clocks.current.sm": "clocks.sm", "clocks.current.memory": "clocks.mem",
	"clocks.current.graphics": "clocks.gr", "used_memory": "used_gpu_memory",
}

// units are what is printed behind a number unless `nounits` is asked for.
func unit(field string) string {
	switch {
	case strings.HasPrefix(field, "memory.") || field == "used_gpu_memory":
		return "MiB"
	case strings.HasPrefix(field, "utilization.") || field == "fan.speed":
		return "%"
	case strings.HasPrefix(field, "power.") && field != "power.management":
		return "W"
	case strings.HasPrefix(field, "clocks.") && !strings.Contains(field, "_"):
		return "MHz"
	}
	return ""
}

// fields are the values of one healthy, idle card.
func fields(position, count int, each card.Card, driver card.Driver) map[string]string {
	notAvailable := "[N/A]"
	ecc, errors := "Enabled", "0"
	retired, remapped, remappedCount := notAvailable, "No", "0"
	switch each.ECC {
	case "N/A":
		ecc, errors, remapped, remappedCount = notAvailable, notAvailable, notAvailable, notAvailable
	case "Off":
		ecc, errors, remapped, remappedCount = "Disabled", notAvailable, notAvailable, notAvailable
	}
	mig := notAvailable
	if each.MIG {
		mig = "Disabled"
	}
	power := notAvailable
	if each.PowerWatts > 0 {
		power = fmt.Sprintf("%d.00", each.PowerWatts)
	}
	const reserved, used = 400, 1
	values := map[string]string{
		"index": strconv.Itoa(position), "count": strconv.Itoa(count), "uuid": each.UUID, "name": each.Name,
		"serial": notAvailable, "driver_version": driver.Version, "vbios_version": "95.02.18.80.01",
		"pci.bus_id": each.Bus, "pci.bus": "0x" + each.Bus[9:11], "pci.device": "0x00", "pci.domain": "0x0000", "pci.device_id": "0x268410DE",
		"memory.total": strconv.Itoa(each.MemoryMiB), "memory.used": strconv.Itoa(used), "memory.reserved": strconv.Itoa(reserved),
		"memory.free":     strconv.Itoa(each.MemoryMiB - reserved - used),
		"utilization.gpu": "0", "utilization.memory": "0", "utilization.encoder": "0", "utilization.decoder": "0",
		"temperature.gpu": "34", "temperature.memory": notAvailable, "temperature.gpu.tlimit": notAvailable, "fan.speed": notAvailable,
		"power.draw": "22.50", "power.draw.average": "22.50", "power.draw.instant": "22.50", "power.management": "Enabled",
		"power.limit": power, "power.default_limit": power, "power.max_limit": power, "power.min_limit": notAvailable, "enforced.power.limit": power,
		"pstate": "P8", "compute_mode": "Default", "compute_cap": each.ComputeCapability, "persistence_mode": "Enabled",
		"accounting.mode": "Disabled", "display_mode": "Disabled", "display_active": "Disabled", "display_attached": "No",
		"mig.mode.current": mig, "mig.mode.pending": mig, "ecc.mode.current": ecc, "ecc.mode.pending": ecc,
		"retired_pages.pending": retired, "retired_pages.single_bit_ecc.count": retired, "retired_pages.double_bit.count": retired,
		"remapped_rows.pending": remapped, "remapped_rows.failure": remapped,
		"remapped_rows.correctable": remappedCount, "remapped_rows.uncorrectable": remappedCount,
		"clocks.sm": "210", "clocks.gr": "210", "clocks.mem": "405", "clocks.video": "1185", "clocks.max.sm": "2520", "clocks.max.mem": "10501", "clocks.max.gr": "2520",
		"pcie.link.gen.current": "1", "pcie.link.gen.max": "4", "pcie.link.width.current": "16", "pcie.link.width.max": "16",
		"fabric.state": notAvailable, "fabric.status": notAvailable, "fabric.cliqueId": notAvailable, "fabric.clusterUuid": notAvailable,
		"inforom.checksum_validation": "valid", "gsp.mode.current": "Enabled", "gpu_recovery_action": "None", "addressing_mode": "None",
	}
	for _, prefix := range []string{"clocks_event_reasons.", "clocks_throttle_reasons."} {
		values[prefix+"active"], values[prefix+"supported"] = "0x0000000000000001", "0x00000000000001FF"
		values[prefix+"gpu_idle"] = "Active"
		for _, reason := range []string{"applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown", "sync_boost"} {
			values[prefix+reason] = "Not Active"
		}
	}
	for _, kind := range []string{"corrected", "uncorrected"} {
		for _, life := range []string{"volatile", "aggregate"} {
			for _, part := range []string{"total", "device_memory", "dram", "sram", "register_file", "l1_cache", "l2_cache", "texture_memory", "cbu"} {
				values[strings.Join([]string{"ecc.errors", kind, life, part}, ".")] = errors
			}
		}
	}
	return values
}

// isField says whether cards have this field, under any of its names.
func isField(name string) bool {
	known := fields(0, 1, card.Card{Bus: "00000000:00:00.0"}, card.Driver{})
	_, ok := known[canonical(name)]
	return ok
}

// follow sets what follows from changed fields, so that an answer is not at
// odds with itself. What was changed itself stays.
func follow(values, changes map[string]string) {
	set := func(name, value string) {
		if _, changed := changes[name]; !changed {
			values[name] = value
		}
	}
	total, errTotal := strconv.Atoi(values["memory.total"])
	used, errUsed := strconv.Atoi(values["memory.used"])
	reserved, errReserved := strconv.Atoi(values["memory.reserved"])
	if errTotal == nil && errUsed == nil && errReserved == nil {
		set("memory.free", strconv.Itoa(max(0, total-used-reserved)))
	}
	work, err := strconv.ParseFloat(values["utilization.gpu"], 64)
	if err != nil || work == 0 {
		return
	}
	set("pstate", "P2")
	for _, clock := range []string{"sm", "gr", "mem"} {
		set("clocks."+clock, values["clocks.max."+clock])
	}
	for _, prefix := range []string{"clocks_event_reasons.", "clocks_throttle_reasons."} {
		set(prefix+"active", "0x0000000000000000")
		set(prefix+"gpu_idle", "Not Active")
	}
	idle, errIdle := strconv.ParseFloat(values["power.draw"], 64)
	limit, errLimit := strconv.ParseFloat(values["power.limit"], 64)
	if errIdle == nil && errLimit == nil {
		for _, name := range []string{"power.draw", "power.draw.average", "power.draw.instant"} {
			set(name, fmt.Sprintf("%.2f", idle+(limit-idle)*work/100))
		}
	}
}
