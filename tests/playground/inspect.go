package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"leasehold.dev/playground/internal/node"
	"leasehold.dev/playground/internal/place"
	"leasehold.dev/playground/internal/process"
	"leasehold.dev/playground/internal/smi"
)

// processStatus is one line of `status`.
type processStatus struct {
	process.Identity
	Node  string `json:"node,omitempty"`
	Alive bool   `json:"alive"`
}

type playgroundStatus struct {
	place.Record
	State  string          `json:"state"`
	Status []processStatus `json:"status"`
}

func statusCommand() *cobra.Command {
	var directory, format string
	command := directoryFlag(&cobra.Command{
		Use: "status", Short: "Show what runs; exit 1 unless everything does", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, record, err := existing(directory)
			if err != nil {
				return err
			}
			status := read(record)
			switch format {
			case "json":
				encoder := json.NewEncoder(os.Stdout)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(status)
			case "":
				err = show(status)
			default:
				err = fmt.Errorf("-o %s: only json is known", format)
			}
			if err == nil && status.State != "up" {
				return silent(1)
			}
			return err
		},
	}, &directory)
	command.Flags().StringVarP(&format, "output", "o", "", "json")
	return command
}

func read(record place.Record) playgroundStatus {
	status := playgroundStatus{Record: record, State: "up"}
	if dead := missing(record); len(dead) > 0 || !record.Ready {
		status.State = "partly up"
	}
	for _, identity := range record.Processes {
		status.Status = append(status.Status, processStatus{Identity: identity, Alive: identity.Alive()})
	}
	for _, each := range record.Nodes {
		status.Status = append(status.Status, processStatus{Identity: each.Init, Node: each.Name, Alive: each.Init.Alive()})
		if each.Init.Alive() {
			for _, child := range each.Init.Children() {
				status.Status = append(status.Status, processStatus{Identity: child, Node: each.Name, Alive: true})
			}
		}
	}
	return status
}

func show(status playgroundStatus) error {
	fmt.Printf("%s: %s, id %s\nkubeconfig %s\n", status.Directory, status.State, status.ID, status.Kubeconfig)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tNODE\tPID\tRUNS")
	for _, each := range status.Status {
		fmt.Fprintf(table, "%s\t%s\t%d\t%v\n", each.Name, each.Node, each.PID, each.Alive)
	}
	return table.Flush()
}

// loadImage loads an archive into all real nodes at once.
func loadImage(at place.Place, archive string, names []string) error {
	record, _, err := at.Read()
	if err != nil {
		return err
	}
	if len(record.Nodes) == 0 {
		return fmt.Errorf("%s has no real nodes (--nodes): there is nowhere to load %s", at.Directory, archive)
	}
	absolute, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("failed to find %s: %w", archive, err)
	}
	failures := make([]error, len(record.Nodes))
	var group sync.WaitGroup
	for index, each := range record.Nodes {
		group.Go(func() {
			loaded, err := node.LoadImage(record, each, absolute, names)
			failures[index] = err
			for _, name := range loaded {
				fmt.Fprintf(os.Stderr, "loaded %s into %s\n", name, each.Name)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func scenarioCommand() *cobra.Command {
	var directory, name string
	command := directoryFlag(&cobra.Command{
		Use: "scenario [FILE|-|reset]", Short: "Show, set or reset what a node's simulated cards do", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			at, record, err := existing(directory)
			if err != nil {
				return err
			}
			for _, each := range record.Nodes {
				if each.Name == name {
					return scenario(at, name, arguments)
				}
			}
			return fmt.Errorf("--node %q is no real node of %s", name, at.Directory)
		},
	}, &directory)
	command.Flags().StringVar(&name, "node", "node-1", "real node")
	return command
}

func scenario(at place.Place, name string, arguments []string) error {
	if len(arguments) == 0 {
		content, err := os.ReadFile(at.Node(name, "scenario.json"))
		if err != nil {
			return fmt.Errorf("failed to read the scenario of %s: %w", name, err)
		}
		_, err = os.Stdout.Write(content)
		return err
	}
	content := []byte("{}\n")
	if arguments[0] != "reset" {
		file, err := stdinOr(arguments[0])
		if err != nil {
			return fmt.Errorf("failed to open the scenario: %w", err)
		}
		defer file.Close()
		if content, err = io.ReadAll(file); err != nil {
			return fmt.Errorf("failed to read the scenario: %w", err)
		}
	}
	if _, err := smi.ParseScenario(content); err != nil {
		return err
	}
	return at.Write(content, 0o644, "nodes", name, "gpu", "scenario.json")
}

func toJSONCommand() *cobra.Command {
	return &cobra.Command{
		Use: "to-json", Short: "Turn YAML documents from standard input into JSON, one a line, as Kubernetes reads them", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return toJSON(os.Stdin, os.Stdout) },
	}
}

func toJSON(from io.Reader, to io.Writer) error {
	reader := documents.NewYAMLReader(bufio.NewReader(from))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		converted, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		// A document of comments only is none.
		if string(converted) == "null" {
			continue
		}
		if _, err := fmt.Fprintf(to, "%s\n", converted); err != nil {
			return err
		}
	}
}
