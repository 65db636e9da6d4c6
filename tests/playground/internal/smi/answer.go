package smi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold.dev/playground/internal/card"
)

// Call is one run of nvidia-smi.
type Call struct {
	Arguments []string
	// Visible is NVIDIA_VISIBLE_DEVICES.
	Visible   string
	Inventory card.Inventory
	Scenario  Scenario
	Now       time.Time
}

// Answer is what nvidia-smi prints and how it ends.
type Answer struct {
	Output string
	// Errors goes to standard error.
	Errors   string
	ExitCode int
	// Delay passes before anything is printed; Hang is for ever.
	Delay time.Duration
	Hang  bool
	// Every repeats the call (-l, -lms); 0 means once.
	Every time.Duration
}

const badArguments = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"

// Answer is pure.
func (c Call) Answer() Answer {
	answer := Answer{Hang: c.Scenario.Hang, Delay: time.Duration(c.Scenario.SleepSeconds * float64(time.Second))}
	failure := c.Scenario.Failure
	if failure != nil && len(c.Scenario.FailOnly) > 0 {
		line := strings.Join(c.Arguments, " ")
		if !slices.ContainsFunc(c.Scenario.FailOnly, func(text string) bool { return strings.Contains(line, text) }) {
			failure = nil
		}
	}
	if failure == nil || failure.Warning {
		c.fill(&answer)
	}
	if failure != nil {
		text := strings.TrimSuffix(failure.Text, "\n") + "\n"
		if failure.Stderr {
			answer.Errors += text
		} else {
			answer.Output += text
		}
		answer.ExitCode = failure.ExitCode
	}
	return answer
}

// request is a parsed command line.
type request struct {
	list, topology, help, version, full bool
	query, processes                    []string
	format, only                        []string
	every                               time.Duration
}

func parse(arguments []string) (request, bool) {
	var r request
	for index := 0; index < len(arguments); index++ {
		name, value, attached := strings.Cut(arguments[index], "=")
		next := func() string {
			if !attached && index+1 < len(arguments) {
				index++
				return arguments[index]
			}
			return value
		}
		switch name {
		case "-L", "--list-gpus":
			r.list = true
		case "-h", "--help":
			r.help = true
		case "--version":
			r.version = true
		case "-q", "--query":
			r.full = true
		case "topo":
			r.topology = true
		case "-m", "--matrix":
			if !r.topology {
				return request{}, false
			}
		case "--query-gpu":
			r.query = split(next())
		case "--query-compute-apps":
			r.processes = split(next())
		case "--format":
			r.format = split(next())
		case "-i", "--id":
			r.only = split(next())
		case "-l", "--loop", "-lms", "--loop-ms":
			number, err := strconv.Atoi(next())
			if err != nil || number <= 0 {
				return request{}, false
			}
			r.every = time.Duration(number) * time.Second
			if strings.Contains(name, "ms") {
				r.every = time.Duration(number) * time.Millisecond
			}
		default:
			return request{}, false
		}
	}
	queries := len(r.query) + len(r.processes)
	return r, (queries == 0) == (len(r.format) == 0) && (len(r.query) == 0 || len(r.processes) == 0)
}

func split(text string) []string {
	var parts []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func (c Call) fill(answer *Answer) {
	r, ok := parse(c.Arguments)
	if !ok {
		answer.Output, answer.ExitCode = badArguments, 2
		return
	}
	if r.help {
		answer.Output = "NVIDIA System Management Interface -- v" + c.driver().Version + "\n"
		return
	}
	if r.version {
		d := c.driver()
		answer.Output = fmt.Sprintf("NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\nCUDA Version        : %s\n", d.Version, branch(d.Version), d.Version, d.CUDA)
		return
	}
	cards := c.cards()
	if len(cards) == 0 {
		answer.Output, answer.ExitCode = "No devices were found\n", 6
		return
	}
	if cards = pick(cards, r.only); len(cards) == 0 {
		answer.Output, answer.ExitCode = "No devices were found\n", 6
		return
	}
	answer.Every = r.every
	switch {
	case len(r.query) > 0:
		c.query(answer, r, cards)
	case len(r.processes) > 0:
		c.queryProcesses(answer, r, cards)
	case r.list:
		for _, each := range cards {
			answer.Output += fmt.Sprintf("GPU %d: %s (UUID: %s)\n", each.position, each.values["name"], each.values["uuid"])
		}
	case r.topology:
		answer.Output = c.topology(cards)
	case r.full:
		answer.Output = c.full(cards)
	default:
		answer.Output = c.table(cards)
	}
}

func branch(version string) string {
	parts := strings.Split(version, ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}

func (c Call) driver() card.Driver {
	if c.Scenario.Driver != nil {
		return *c.Scenario.Driver
	}
	return c.Inventory.Driver
}

// cards are what this container sees, in the order of the bus and numbered
// from 0, whatever the order in the variable.
func (c Call) cards() []seen {
	visible := split(c.Visible)
	all := slices.Contains(visible, "all")
	var found, others []card.Card
	for _, each := range c.Inventory.Cards {
		if all || slices.Contains(visible, each.UUID) || slices.Contains(visible, strconv.Itoa(each.Index)) {
			found = append(found, each)
		} else {
			others = append(others, each)
		}
	}
	if show := c.Scenario.Show; show != nil {
		reachable := append(found, others...)
		found = reachable[:min(max(0, *show), len(reachable))]
	}
	var cards []seen
	for position, each := range found {
		values := fields(position, len(found), each, c.driver())
		changes := c.changes(each)
		maps.Copy(values, changes)
		follow(values, changes)
		cards = append(cards, seen{Card: each, position: position, values: values})
	}
	return cards
}

// changes are the fields of a card that the scenario sets at this moment.
func (c Call) changes(each card.Card) map[string]string {
	changes := map[string]string{}
	for _, some := range []map[string]Value{c.Scenario.AllCards, c.Scenario.Cards[strconv.Itoa(each.Index)], c.Scenario.Cards[each.UUID]} {
		for name, value := range some {
			if text, ok := value.at(c.Now.Sub(c.Scenario.Written)); ok {
				changes[canonical(name)] = text
			}
		}
	}
	return changes
}

func pick(cards []seen, only []string) []seen {
	if len(only) == 0 {
		return cards
	}
	return slices.DeleteFunc(slices.Clone(cards), func(each seen) bool {
		return !slices.Contains(only, strconv.Itoa(each.position)) && !slices.Contains(only, each.values["uuid"]) && !slices.Contains(only, each.values["pci.bus_id"])
	})
}

func canonical(field string) string {
	if name, ok := names[field]; ok {
		return name
	}
	return field
}

func (c Call) query(answer *Answer, r request, cards []seen) {
	var rows [][]string
	for _, each := range cards {
		each.values["timestamp"] = c.Now.Format("2006/01/02 15:04:05.000")
		var row []string
		for _, field := range r.query {
			value, known := each.values[canonical(field)]
			if !known || slices.Contains(c.Scenario.UnknownFields, field) {
				answer.Output, answer.ExitCode = unknownField(field), 2
				return
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	answer.Output = print(r, r.query, rows)
}

func unknownField(field string) string {
	return fmt.Sprintf("Field %q is not a valid field to query.\n\n", field)
}

func (c Call) queryProcesses(answer *Answer, r request, cards []seen) {
	var rows [][]string
	for _, field := range r.processes {
		if !slices.Contains([]string{"timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "pid", "process_name", "name", "used_memory", "used_gpu_memory"}, field) || slices.Contains(c.Scenario.UnknownFields, field) {
			answer.Output, answer.ExitCode = unknownField(field), 2
			return
		}
	}
	for _, each := range cards {
		for _, process := range c.on(each) {
			var row []string
			for _, field := range r.processes {
				switch field {
				case "timestamp":
					row = append(row, c.Now.Format("2006/01/02 15:04:05.000"))
				case "pid":
					row = append(row, strconv.Itoa(process.PID))
				case "process_name", "name":
					row = append(row, process.Name)
				case "used_memory", "used_gpu_memory":
					row = append(row, process.UsedMemory)
				default:
					row = append(row, each.values[canonical(field)])
				}
			}
			rows = append(rows, row)
		}
	}
	headers := slices.Clone(r.processes)
	for index, field := range headers {
		if field == "used_memory" {
			headers[index] = "used_gpu_memory"
		}
	}
	answer.Output = print(r, headers, rows)
}

func (c Call) on(each seen) []Process {
	return slices.DeleteFunc(slices.Clone(c.Scenario.Processes), func(process Process) bool {
		return process.Card != strconv.Itoa(each.Index) && process.Card != each.UUID
	})
}

func print(r request, headers []string, rows [][]string) string {
	var text strings.Builder
	if !slices.Contains(r.format, "noheader") {
		for index, field := range headers {
			if index > 0 {
				text.WriteString(", ")
			}
			text.WriteString(field)
			if u := unit(field); u != "" {
				text.WriteString(" [" + u + "]")
			}
		}
		text.WriteString("\n")
	}
	for _, row := range rows {
		for index, value := range row {
			if index > 0 {
				text.WriteString(", ")
			}
			text.WriteString(value)
			if _, err := strconv.ParseFloat(value, 64); err == nil && unit(headers[index]) != "" && !slices.Contains(r.format, "nounits") {
				text.WriteString(" " + unit(headers[index]))
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}
