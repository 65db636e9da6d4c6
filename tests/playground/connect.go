package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"leasehold.dev/playground/internal/controlplane"
	"leasehold.dev/playground/internal/dns"
	"leasehold.dev/playground/internal/network"
	"leasehold.dev/playground/internal/process"
)

// startNetwork makes the network that nodes are connected to, and its way
// outside.
func (s *starting) startNetwork(context.Context) error {
	if s.nodes == 0 {
		return nil
	}
	var err error
	if s.block, err = network.Claim(s.place.ID); err != nil {
		return err
	}
	if s.router, err = s.background(process.Command{Name: "router", Namespaces: syscall.CLONE_NEWNET}, network.Router{Block: s.block, Packages: s.packages}); err != nil {
		return err
	}
	if err := network.ConnectHost(s.place.ID, s.block, s.router); err != nil {
		return err
	}
	if err := network.CheckOutside(s.packages); err != nil {
		s.say("warning: pods will not reach outside: %v", err)
		return nil
	}
	s.resolver = s.block.Resolver().String()
	program, arguments, environment := network.Outside(s.packages, s.block, s.router)
	_, err = s.record(process.Command{Name: "outside", Path: program, Arguments: arguments, Environment: environment})
	return err
}

// startServices brings to nodes and pods what the host runs for them: the API
// server and the cluster's DNS.
func (s *starting) startServices(ctx context.Context) error {
	if s.nodes == 0 {
		return nil
	}
	gateway := gatewaySettings{
		Router: s.router, Listen: net.JoinHostPort(s.block.Advertise().String(), fmt.Sprint(s.port)), Target: fmt.Sprintf("127.0.0.1:%d", s.port),
	}
	if _, err := s.background(process.Command{Name: "gateway"}, gateway); err != nil {
		return err
	}
	address, kubeconfig := s.block.Advertise(), []string{"pki", "coredns.kubeconfig"}
	server := fmt.Sprintf("https://%s:%d", address, s.port)
	if err := s.credentials.WriteKubeconfig(server, controlplane.DNSUser, nil, kubeconfig...); err != nil {
		return err
	}
	if err := controlplane.PublishDNS(ctx, s.client, address); err != nil {
		return err
	}
	_, err := s.background(process.Command{Name: "coredns", Network: s.router}, dns.Settings{
		Address: address, Kubeconfig: s.place.Path(kubeconfig...), Resolver: s.resolver,
	})
	return err
}

func (s *starting) dnsNotReady() string {
	if s.nodes == 0 {
		return ""
	}
	// No proxy of the host's knows the way to the playground.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	answer, err := client.Get(dns.Ready(s.block.Advertise()))
	if err != nil {
		return fmt.Sprintf("the cluster's DNS does not answer: %v", err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Sprintf("the cluster's DNS is not ready (%s), see %s", answer.Status, s.place.Log("coredns"))
	}
	return ""
}
