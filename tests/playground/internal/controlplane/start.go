package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"leasehold.dev/playground/internal/place"
	"leasehold.dev/playground/internal/process"
)

// Settings say what to start.
type Settings struct {
	Place     place.Place
	Binary    string
	Advertise net.IP
	// Environment is given to every component.
	Environment []string
	// Audit names users whose requests are written to audit.log.
	Audit []string
}

// attempts bounds how often ports are chosen anew: another program can take a
// port between its choice and its use.
const attempts = 5

// readyWithin is generous for a machine that builds at the same time.
const readyWithin = 3 * time.Minute

var errPortTaken = errors.New("a chosen port was taken meanwhile")

// Start brings the control plane up and waits until it serves. It returns the
// URL of the API server.
func Start(ctx context.Context, settings Settings, credentials *Credentials) (server string, port int, err error) {
	before, _, err := settings.Place.Read()
	if err != nil {
		return "", 0, err
	}
	for range attempts {
		server, port, err = start(ctx, settings, credentials)
		if !errors.Is(err, errPortTaken) {
			return server, port, err
		}
		record, _, readErr := settings.Place.Read()
		if readErr != nil {
			return "", 0, readErr
		}
		process.Stop(record.Processes[len(before.Processes):], 5*time.Second)
		if err := os.RemoveAll(settings.Place.Path("etcd")); err != nil {
			return "", 0, fmt.Errorf("failed to clear etcd for another attempt: %w", err)
		}
		if err := settings.Place.Change(func(r *place.Record) { r.Processes = before.Processes }); err != nil {
			return "", 0, err
		}
	}
	return "", 0, err
}

func start(ctx context.Context, settings Settings, credentials *Credentials) (string, int, error) {
	at := settings.Place
	p, err := freePorts()
	if err != nil {
		return "", 0, err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", p.apiserver)
	if err := writeConfiguration(at, server, credentials, settings.Audit); err != nil {
		return "", 0, err
	}
	run := func(name string, arguments []string) (process.Identity, error) {
		identity, err := process.Start(process.Command{
			Name: name, Path: settings.Binary, Arguments: append([]string{name}, arguments...),
			Environment: settings.Environment, Log: at.Log(name),
		}, at.ID)
		if err != nil {
			return process.Identity{}, err
		}
		return identity, at.Change(func(r *place.Record) { r.Processes = append(r.Processes, identity) })
	}
	etcd, err := run("etcd", etcdArguments(at, p))
	if err != nil {
		return "", 0, err
	}
	apiserver, err := run("kube-apiserver", apiserverArguments(at, p, settings.Advertise, settings.Audit))
	if err != nil {
		return "", 0, err
	}
	client, err := Client(at.Kubeconfig())
	if err != nil {
		return "", 0, err
	}
	if err := waitReady(ctx, at, client.RESTClient(), "/readyz", etcd, apiserver); err != nil {
		return "", 0, err
	}
	for name, part := range map[string]struct {
		arguments []string
		port      int
	}{
		"kube-controller-manager": {controllerManagerArguments(at, p), p.controllerManager},
		"kube-scheduler":          {schedulerArguments(at, p), p.scheduler},
	} {
		identity, err := run(name, part.arguments)
		if err != nil {
			return "", 0, err
		}
		own, err := componentClient(at, part.port)
		if err != nil {
			return "", 0, err
		}
		if err := waitReady(ctx, at, own, "/healthz", identity); err != nil {
			return "", 0, err
		}
	}
	return server, p.apiserver, grant(ctx, client)
}

func writeConfiguration(at place.Place, server string, credentials *Credentials, audit []string) error {
	for _, wanted := range []struct {
		user   string
		groups []string
		file   []string
	}{
		{"playground-admin", []string{"system:masters"}, []string{"kubeconfig"}},
		{"system:kube-controller-manager", nil, []string{"pki", "controller-manager.kubeconfig"}},
		{"system:kube-scheduler", nil, []string{"pki", "scheduler.kubeconfig"}},
	} {
		if err := credentials.WriteKubeconfig(server, wanted.user, wanted.groups, wanted.file...); err != nil {
			return err
		}
	}
	if err := at.Write(auditPolicy(audit), 0o644, "audit-policy.yaml"); err != nil {
		return err
	}
	return at.Write(schedulerConfiguration(at), 0o644, "scheduler.yaml")
}

// Client talks to the API server without a rate limit of its own.
func Client(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.Timeout = 0
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for %s: %w", config.Host, err)
	}
	return client, nil
}

// componentClient asks another component than the API server.
func componentClient(at place.Place, port int) (rest.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", at.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig: %w", err)
	}
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", port)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for %s: %w", config.Host, err)
	}
	return client.RESTClient(), nil
}

// waitReady asks until the whole answer is "ok". A part of a failing answer is
// "ok" too, so the answer is compared as a whole; the authority of this
// playground in the client makes sure that the right server answers.
func waitReady(ctx context.Context, at place.Place, client rest.Interface, path string, needed ...process.Identity) error {
	limited, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		for _, identity := range needed {
			if !identity.Alive() {
				return ended(at, identity)
			}
		}
		asking, stop := context.WithTimeout(limited, 2*time.Second)
		body, err := client.Get().AbsPath(path).DoRaw(asking)
		stop()
		if err == nil && string(body) == "ok" {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("%s did not become ready in %s, last answer %q (%v): see %s",
				needed[len(needed)-1].Name, readyWithin, body, err, at.Log(needed[len(needed)-1].Name))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ended(at place.Place, identity process.Identity) error {
	log, err := os.ReadFile(at.Log(identity.Name))
	if err != nil {
		return fmt.Errorf("%s ended and left no log: %w", identity.Name, err)
	}
	if strings.Contains(string(log), "address already in use") {
		return fmt.Errorf("%s: %w", identity.Name, errPortTaken)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return fmt.Errorf("%s ended while starting, see %s: %s", identity.Name, at.Log(identity.Name), lines[len(lines)-1])
}
