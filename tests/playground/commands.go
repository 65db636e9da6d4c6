package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"leasehold.dev/playground/internal/place"
)

const usualDriver = "580.95.05/13.0"

func commands() *cobra.Command {
	root := &cobra.Command{
		Use:           "playground",
		Short:         "A real Kubernetes with simulated GPUs on one machine",
		Long:          "A real Kubernetes with simulated GPUs on one machine.\n\n`playground kubectl ...` is kubectl.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(upCommand(), downCommand(), statusCommand(), kubeconfigCommand(), loadImageCommand(), leftoversCommand(), scenarioCommand(), toJSONCommand())
	return root
}

func upCommand() *cobra.Command {
	var options upOptions
	command := &cobra.Command{
		Use: "up", Short: "Start a playground in the background and wait until it is ready", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return up(command.Context(), options) },
	}
	flags := command.Flags()
	flags.StringVar(&options.directory, "dir", "", "directory for everything of this playground; new or empty")
	flags.IntVar(&options.nodes, "nodes", 0, "real nodes: kubelet, containerd and runc in namespaces of their own (needs root and --packages)")
	flags.IntVar(&options.simulated, "simulated-nodes", 0, "node objects without machines")
	flags.StringVar(&options.cards, "cards", "rtx4090:4", "cards dealt to the nodes in turn, id:count[,id:count]; `none` for a node without")
	flags.StringVar(&options.simulatedCards, "simulated-cards", "", "the same for simulated nodes only (default: --cards)")
	flags.StringVar(&options.catalog, "catalog", "operator/core/data/cards.csv", "CSV file with the facts of the cards")
	flags.StringVar(&options.driver, "driver", usualDriver, "simulated driver and its newest CUDA")
	flags.StringVar(&options.packages, "packages", "", "root of unpacked distribution packages with containerd, runc and CNI plugins")
	flags.StringArrayVar(&options.images, "image", nil, "image archive to load into every real node; repeatable")
	flags.StringArrayVar(&options.audit, "audit", nil, "user whose requests are written to audit.log; repeatable")
	return command
}

func directoryFlag(command *cobra.Command, directory *string) *cobra.Command {
	command.Flags().StringVar(directory, "dir", "", "directory of the playground")
	return command
}

func downCommand() *cobra.Command {
	var directory string
	var keep bool
	command := directoryFlag(&cobra.Command{
		Use: "down", Short: "End a playground and delete its directory", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return down(directory, keep) },
	}, &directory)
	command.Flags().BoolVar(&keep, "keep", false, "keep the logs")
	return command
}

func kubeconfigCommand() *cobra.Command {
	var directory string
	return directoryFlag(&cobra.Command{
		Use: "kubeconfig", Short: "Print the path of the administrator's kubeconfig", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, record, err := existing(directory)
			if err != nil {
				return err
			}
			fmt.Println(record.Kubeconfig)
			return nil
		},
	}, &directory)
}

func loadImageCommand() *cobra.Command {
	var directory string
	var names []string
	command := directoryFlag(&cobra.Command{
		Use: "load-image FILE.tar", Short: "Load an image archive into every real node", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			at, _, err := existing(directory)
			if err != nil {
				return err
			}
			return loadImage(at, arguments[0], names)
		},
	}, &directory)
	command.Flags().StringArrayVar(&names, "as", nil, "another name for the image; repeatable")
	return command
}

func leftoversCommand() *cobra.Command {
	var directory, id string
	command := directoryFlag(&cobra.Command{
		Use: "leftovers", Short: "List what the machine has of a playground; exit 1 if there is anything", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			at := place.Place{Directory: "/nonexistent", ID: id}
			if id == "" {
				var err error
				if at, err = place.At(directory); err != nil {
					return err
				}
			}
			found := leftovers(at)
			for _, each := range found {
				fmt.Println(each)
			}
			if len(found) > 0 {
				return silent(1)
			}
			return nil
		},
	}, &directory)
	command.Flags().StringVar(&id, "id", "", "id of the playground, instead of its directory")
	return command
}

// existing is a playground that was started.
func existing(directory string) (place.Place, place.Record, error) {
	at, err := place.At(directory)
	if err != nil {
		return place.Place{}, place.Record{}, err
	}
	record, ok, err := at.Read()
	if err != nil {
		return place.Place{}, place.Record{}, err
	}
	if !ok {
		return place.Place{}, place.Record{}, fmt.Errorf("no playground in %s: run `playground up --dir %s`", at.Directory, directory)
	}
	return at, record, nil
}

func stdinOr(file string) (*os.File, error) {
	if file == "-" {
		return os.Stdin, nil
	}
	return os.Open(file)
}
