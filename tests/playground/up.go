package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"leasehold.dev/playground/internal/card"
	"leasehold.dev/playground/internal/cgroup"
	"leasehold.dev/playground/internal/controlplane"
	"leasehold.dev/playground/internal/installation"
	"leasehold.dev/playground/internal/network"
	"leasehold.dev/playground/internal/node"
	"leasehold.dev/playground/internal/place"
	"leasehold.dev/playground/internal/process"
	"leasehold.dev/playground/internal/simulated"
)

// upOptions are the flags of `up`.
type upOptions struct {
	directory, cards, simulatedCards, catalog, driver, packages string
	nodes, simulated                                            int
	images, audit                                               []string
}

// starting is what the steps of `up` share.
type starting struct {
	upOptions
	place       place.Place
	binary      string
	environment []string
	block       network.Block
	router      int
	resolver    string
	real, fake  []simulated.Node
	server      string
	port        int
	credentials *controlplane.Credentials
	client      kubernetes.Interface
	began       time.Time
}

func up(ctx context.Context, options upOptions) error {
	s := &starting{upOptions: options, began: time.Now()}
	done, err := s.prepare()
	if err != nil || done {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"processes", s.joinGroup}, {"network", s.startNetwork}, {"control plane", s.startControlPlane}, {"settings", s.writeSettings}, {"simulated nodes", s.startSimulated}, {"way to the control plane", s.startServices},
		{"real nodes", s.startReal}, {"ready", s.waitForNodes}, {"images", s.loadImages},
	} {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w\nwhat was started is left for a look at %s; run `playground down --dir %s`", step.name, err, s.place.Path("logs"), s.place.Directory)
		}
	}
	if err := s.place.Change(func(r *place.Record) { r.Ready = true }); err != nil {
		return err
	}
	s.say("up in %s, kubeconfig:", time.Since(s.began).Round(100*time.Millisecond))
	fmt.Println(s.place.Kubeconfig())
	return nil
}

// say prints progress; only the kubeconfig goes to standard output.
func (s *starting) say(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) }

// prepare checks everything that can be checked before anything is started.
// It reports true when the playground is already up.
func (s *starting) prepare() (bool, error) {
	var err error
	if s.place, err = place.At(s.directory); err != nil {
		return false, err
	}
	record, exists, err := s.place.Read()
	if err != nil {
		return false, err
	}
	if exists {
		if dead := missing(record); record.Ready && len(dead) == 0 {
			s.say("%s is already up, kubeconfig:", s.place.Directory)
			fmt.Println(record.Kubeconfig)
			return true, nil
		}
		return false, fmt.Errorf("%s holds a playground that is only partly up: run `playground down --dir %s` first", s.place.Directory, s.place.Directory)
	}
	if entries, err := os.ReadDir(s.place.Directory); err == nil && len(entries) > 0 {
		return false, fmt.Errorf("%s is not empty and not a playground: `down` would delete it, so choose an empty or new directory", s.place.Directory)
	}
	if left := leftovers(s.place); len(left) > 0 {
		return false, fmt.Errorf("an earlier playground in %s left %d things (%s, ...): run `playground down --dir %s` first", s.place.Directory, len(left), left[0], s.place.Directory)
	}
	if s.binary, err = os.Executable(); err != nil {
		return false, fmt.Errorf("failed to find this program: %w", err)
	}
	if s.packages != "" {
		if s.packages, err = filepath.Abs(s.packages); err != nil {
			return false, fmt.Errorf("failed to find --packages: %w", err)
		}
	}
	if s.nodes > 0 {
		if s.nodes > network.MaxNodes {
			return false, fmt.Errorf("--nodes %d: at most %d real nodes have addresses", s.nodes, network.MaxNodes)
		}
		if err := node.Check(s.place, s.binary, s.packages); err != nil {
			return false, err
		}
	}
	if err := enoughInotify(s.nodes); err != nil {
		return false, err
	}
	for _, image := range s.images {
		if _, err := os.Stat(image); err != nil {
			return false, fmt.Errorf("--image: %w", err)
		}
	}
	if err := s.stock(); err != nil {
		return false, err
	}
	for _, directory := range []string{s.place.Path("logs"), s.place.Path("pki")} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return false, fmt.Errorf("failed to make %s: %w", directory, err)
		}
	}
	return false, s.place.Change(func(r *place.Record) { r.Packages = s.packages })
}

// stock deals the batches of cards to the nodes in turn.
func (s *starting) stock() error {
	if s.nodes+s.simulated == 0 {
		return nil
	}
	driver, err := card.ParseDriver(s.driver)
	if err != nil {
		return err
	}
	catalog, err := card.Load(s.catalog)
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		prefix, cards string
		count         int
		into          *[]simulated.Node
	}{{"node", s.cards, s.nodes, &s.real}, {"sim", firstOf(s.simulatedCards, s.cards), s.simulated, &s.fake}} {
		batches, err := card.ParseBatches(kind.cards)
		if err != nil {
			return err
		}
		for number := range kind.count {
			name := fmt.Sprintf("%s-%d", kind.prefix, number+1)
			inventory, err := catalog.Stock(s.place.ID, name, batches[number%len(batches)], driver)
			if err != nil {
				return err
			}
			*kind.into = append(*kind.into, simulated.Node{Name: name, Inventory: inventory})
		}
	}
	return nil
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// joinGroup lets all processes be found again by their control group.
func (s *starting) joinGroup(context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	group := cgroup.Root(s.place.ID) + "/control-plane"
	// Only for finding the processes again, so one hierarchy is enough.
	if err := cgroup.Create(group, "pids"); err != nil {
		s.say("warning: processes are found by their environment only: %v", err)
	} else {
		s.environment = []string{groupVariable + "=" + group}
	}
	return nil
}

func (s *starting) startControlPlane(ctx context.Context) error {
	var err error
	if s.credentials, err = controlplane.NewCredentials(s.place, s.block.Advertise()); err != nil {
		return err
	}
	s.say("starting etcd, API server, controller manager, scheduler")
	s.server, s.port, err = controlplane.Start(ctx, controlplane.Settings{
		Place: s.place, Binary: s.binary, Advertise: s.block.Advertise(), Environment: s.environment, Audit: s.audit,
	}, s.credentials)
	if err != nil {
		return err
	}
	if s.client, err = controlplane.Client(s.place.Kubeconfig()); err != nil {
		return err
	}
	s.say("control plane ready after %s at %s", time.Since(s.began).Round(100*time.Millisecond), s.server)
	return s.place.Change(func(r *place.Record) { r.Server = s.server })
}

// background starts a part of the playground with a file of settings.
func (s *starting) background(command process.Command, settings any) (pid int, err error) {
	name := command.Name
	content, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return 0, fmt.Errorf("failed to encode the settings of %s: %w", name, err)
	}
	if err := s.place.Write(content, 0o600, name+".json"); err != nil {
		return 0, err
	}
	command.Path, command.Arguments = s.binary, []string{name, s.place.Path(name + ".json")}
	return s.record(command)
}

// record starts a process and keeps in mind that it runs.
func (s *starting) record(command process.Command) (pid int, err error) {
	command.Environment = append(command.Environment, s.environment...)
	command.Log = s.place.Log(command.Name)
	identity, err := process.Start(command, s.place.ID)
	if err != nil {
		return 0, err
	}
	return identity.PID, s.place.Change(func(r *place.Record) { r.Processes = append(r.Processes, identity) })
}

func (s *starting) startSimulated(context.Context) error {
	if s.simulated == 0 {
		return nil
	}
	if err := s.credentials.WriteKubeconfig(s.server, "playground:simulated-nodes", []string{"system:masters"}, "pki", "simulated-nodes.kubeconfig"); err != nil {
		return err
	}
	if _, err := s.background(process.Command{Name: "simulated-nodes"}, simulatedSettings{Kubeconfig: s.place.Path("pki", "simulated-nodes.kubeconfig"), Nodes: s.fake}); err != nil {
		return err
	}
	return s.place.Change(func(r *place.Record) {
		for _, node := range s.fake {
			r.Simulated = append(r.Simulated, node.Name)
		}
	})
}

// writeSettings is for an operator that runs here.
func (s *starting) writeSettings(context.Context) error {
	settings, err := installation.Settings()
	if err != nil {
		return err
	}
	return s.place.Write(settings, 0o644, "settings.yaml")
}

func (s *starting) startReal(context.Context) error {
	if s.nodes == 0 {
		return nil
	}
	for index, wanted := range s.real {
		created, err := node.Create(node.Request{
			Name: wanted.Name, Place: s.place, Binary: s.binary, Packages: s.packages, Number: index + 1, Block: s.block,
			Router: s.router, Resolver: s.resolver, Port: s.port, Inventory: wanted.Inventory,
		}, s.credentials)
		if err != nil {
			return err
		}
		s.say("started %s: %s, pods %s, %d cards", created.Name, created.Address, created.Pods, len(wanted.Inventory.Cards))
	}
	return nil
}

// waitForNodes waits until every node is ready, its cards are offered, and a
// pod may be created.
func (s *starting) waitForNodes(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var waiting string
	for {
		record, _, err := s.place.Read()
		if err != nil {
			return err
		}
		if dead := missing(record); len(dead) > 0 {
			return fmt.Errorf("%s ended while starting, see %s", dead[0], s.place.Log(dead[0]))
		}
		if waiting = s.notReady(limited); waiting == "" {
			return nil
		}
		select {
		case <-limited.Done():
			return errors.New("timed out: " + waiting)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *starting) notReady(ctx context.Context) string {
	if _, err := s.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", meta.GetOptions{}); err != nil {
		return fmt.Sprintf("the default service account is missing: %v", err)
	}
	if waiting := s.dnsNotReady(); waiting != "" {
		return waiting
	}
	for _, wanted := range append(s.real, s.fake...) {
		found, err := s.client.CoreV1().Nodes().Get(ctx, wanted.Name, meta.GetOptions{})
		if err != nil {
			return fmt.Sprintf("node %s is missing: %v", wanted.Name, err)
		}
		ready := false
		for _, condition := range found.Status.Conditions {
			ready = ready || condition.Type == core.NodeReady && condition.Status == core.ConditionTrue
		}
		cards := found.Status.Allocatable["nvidia.com/gpu"]
		if !ready || cards.Value() != int64(len(wanted.Inventory.Cards)) {
			return fmt.Sprintf("node %s: ready %v, %d of %d cards, see %s", wanted.Name, ready, cards.Value(), len(wanted.Inventory.Cards), s.place.Node(wanted.Name, "log"))
		}
		if len(found.Spec.Taints) > 0 {
			return fmt.Sprintf("node %s still has taint %s", wanted.Name, found.Spec.Taints[0].Key)
		}
	}
	return ""
}

func (s *starting) loadImages(context.Context) error {
	for _, image := range s.images {
		if err := loadImage(s.place, image, nil); err != nil {
			return err
		}
	}
	return nil
}
