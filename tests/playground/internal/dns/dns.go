// Package dns runs CoreDNS with the few plugins that a cluster's DNS needs: it
// answers for Services and pods, and asks the host's resolver for the rest.
package dns

import (
	"fmt"
	"net"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
)

// Settings are those of one server.
type Settings struct {
	// Address is listened at.
	Address net.IP `json:"address"`
	// Kubeconfig is of an account that may read Services, EndpointSlices,
	// namespaces and pods.
	Kubeconfig string `json:"kubeconfig"`
	// Resolver is asked about everything outside the cluster; empty where
	// nothing outside is reached.
	Resolver string `json:"resolver"`
}

// Serve answers until the process ends.
func (s Settings) Serve() error {
	caddy.AppName, caddy.Quiet = "CoreDNS", true
	server, err := caddy.Start(caddy.CaddyfileInput{Filepath: "Corefile", Contents: s.corefile(), ServerTypeName: "dns"})
	if err != nil {
		return fmt.Errorf("failed to start CoreDNS: %w", err)
	}
	server.Wait()
	return nil
}

// Ready is the URL that answers once Services are known.
func Ready(address net.IP) string { return fmt.Sprintf("http://%s:8181/ready", address) }

// Names of the cluster are never cached: a test looks a Service up right after
// it made it.
func (s Settings) corefile() []byte {
	forward := ""
	if s.Resolver != "" {
		forward = fmt.Sprintf("forward . %s\n  loop", s.Resolver)
	}
	return fmt.Appendf(nil, `.:53 {
  bind %[1]s
  errors
  health %[1]s:8080
  ready %[1]s:8181
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig %[2]s
    pods insecure
    fallthrough in-addr.arpa ip6.arpa
    ttl 30
  }
  cache 30 {
    disable success cluster.local
    disable denial cluster.local
  }
  %[3]s
}
`, s.Address, s.Kubeconfig, forward)
}
