// Package controlplane starts the real control plane with its own
// authorities. Files to read next: components.go (the command lines), start.go
// (order and readiness), rights.go (what is granted once it runs).
package controlplane

import (
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"leasehold.dev/playground/internal/certificates"
	"leasehold.dev/playground/internal/place"
)

// ServiceAddress is the cluster address of the `kubernetes` Service.
const ServiceAddress = "10.96.0.1"

// Credentials are the authorities of one control plane. Each trust domain has
// its own, so that a client of the API server is none of etcd.
type Credentials struct {
	Cluster    *certificates.Authority
	frontProxy *certificates.Authority
	etcd       *certificates.Authority
	advertise  net.IP
	now        time.Time
	place      place.Place
}

// NewCredentials makes the authorities and writes the certificates of the
// control plane. The advertised address is where pods find the API server.
func NewCredentials(at place.Place, advertise net.IP) (*Credentials, error) {
	c := &Credentials{advertise: advertise, now: time.Now(), place: at}
	for _, authority := range []struct {
		name string
		at   **certificates.Authority
	}{{"cluster", &c.Cluster}, {"front-proxy", &c.frontProxy}, {"etcd", &c.etcd}} {
		made, err := certificates.NewAuthority("playground "+authority.name, c.now)
		if err != nil {
			return nil, err
		}
		*authority.at = made
		if err := c.write(authority.name+"-ca", made.Pair); err != nil {
			return nil, err
		}
	}
	loopback := net.IPv4(127, 0, 0, 1)
	for _, wanted := range []struct {
		file      string
		authority *certificates.Authority
		subject   certificates.Subject
	}{
		{"etcd", c.etcd, certificates.Subject{CommonName: "etcd", Names: []string{"localhost"}, Addresses: []net.IP{loopback}}},
		{"etcd-client", c.etcd, certificates.Subject{CommonName: "kube-apiserver"}},
		{"front-proxy", c.frontProxy, certificates.Subject{CommonName: "front-proxy-client"}},
		{"kubelet-client", c.Cluster, certificates.Subject{CommonName: kubeletClient}},
		{"apiserver", c.Cluster, certificates.Subject{
			CommonName: "kube-apiserver",
			Names:      []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			Addresses:  []net.IP{loopback, net.ParseIP(ServiceAddress), advertise},
		}},
		{"controller-manager", c.Cluster, certificates.Subject{CommonName: "kube-controller-manager", Names: []string{"localhost"}, Addresses: []net.IP{loopback}}},
		{"scheduler", c.Cluster, certificates.Subject{CommonName: "kube-scheduler", Names: []string{"localhost"}, Addresses: []net.IP{loopback}}},
	} {
		pair, err := wanted.authority.Issue(wanted.subject, c.now)
		if err != nil {
			return nil, err
		}
		if err := c.write(wanted.file, pair); err != nil {
			return nil, err
		}
	}
	private, public, err := certificates.SigningKey()
	if err != nil {
		return nil, err
	}
	if err := at.Write(private, 0o600, "pki", "service-account.key"); err != nil {
		return nil, err
	}
	return c, at.Write(public, 0o644, "pki", "service-account.pub")
}

// WriteKubeconfig writes a kubeconfig for a new client certificate.
func (c *Credentials) WriteKubeconfig(server, user string, groups []string, file ...string) error {
	pair, err := c.Cluster.Issue(certificates.Subject{CommonName: user, Organizations: groups}, c.now)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["playground"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.Cluster.Certificate}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	config.Contexts["playground"] = &clientcmdapi.Context{Cluster: "playground", AuthInfo: user}
	config.CurrentContext = "playground"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("failed to encode the kubeconfig of %s: %w", user, err)
	}
	return c.place.Write(content, 0o600, file...)
}

// WriteKubelet writes the serving certificate of a node's kubelet.
func (c *Credentials) WriteKubelet(node string, address net.IP, directory ...string) error {
	pair, err := c.Cluster.Issue(certificates.Subject{
		CommonName: "system:node:" + node, Organizations: []string{"system:nodes"},
		Names: []string{node}, Addresses: []net.IP{address},
	}, c.now)
	if err != nil {
		return err
	}
	if err := c.place.Write(pair.Certificate, 0o644, append(directory, "kubelet.crt")...); err != nil {
		return err
	}
	return c.place.Write(pair.Key, 0o600, append(directory, "kubelet.key")...)
}

func (c *Credentials) write(name string, pair certificates.Pair) error {
	if err := c.place.Write(pair.Certificate, 0o644, "pki", name+".crt"); err != nil {
		return err
	}
	return c.place.Write(pair.Key, 0o600, "pki", name+".key")
}
