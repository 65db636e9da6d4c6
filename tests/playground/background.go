package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"leasehold.dev/playground/internal/controlplane"
	"leasehold.dev/playground/internal/dns"
	"leasehold.dev/playground/internal/network"
	"leasehold.dev/playground/internal/simulated"
)

type gatewaySettings struct {
	Router int    `json:"router"`
	Listen string `json:"listen"`
	Target string `json:"target"`
}

func runGateway(file string) error {
	var settings gatewaySettings
	if err := readJSON(file, &settings); err != nil {
		return err
	}
	return network.Gateway(settings.Router, settings.Listen, settings.Target)
}

func runDNS(file string) error {
	var settings dns.Settings
	if err := readJSON(file, &settings); err != nil {
		return err
	}
	return settings.Serve()
}

func runRouter(file string) error {
	var router network.Router
	if err := readJSON(file, &router); err != nil {
		return err
	}
	return router.Hold()
}

type simulatedSettings struct {
	Kubeconfig string           `json:"kubeconfig"`
	Nodes      []simulated.Node `json:"nodes"`
}

func runSimulated(file string) error {
	var settings simulatedSettings
	if err := readJSON(file, &settings); err != nil {
		return err
	}
	client, err := controlplane.Client(settings.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return simulated.Run(ctx, client, settings.Nodes)
}

func readJSON(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the settings: %w", err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("failed to read the settings in %s: %w", file, err)
	}
	return nil
}
