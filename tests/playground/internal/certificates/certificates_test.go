package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func verify(t *testing.T, authority *Authority, pair Pair, options x509.VerifyOptions) error {
	t.Helper()
	parsed, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatalf("certificate and key do not belong together: %v", err)
	}
	options.Roots = x509.NewCertPool()
	options.Roots.AppendCertsFromPEM(authority.Certificate)
	options.CurrentTime = now
	_, err = parsed.Leaf.Verify(options)
	return err
}

func TestAServerCertificateIsValidForItsNamesAndAddressesOnly(t *testing.T) {
	authority, err := NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(Subject{
		CommonName: "server", Names: []string{"localhost"}, Addresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, valid := range map[string]bool{"localhost": true, "127.0.0.1": true, "127.0.0.2": false, "elsewhere": false} {
		if err := verify(t, authority, pair, x509.VerifyOptions{DNSName: name}); (err == nil) != valid {
			t.Errorf("%s: valid should be %v, error %v", name, valid, err)
		}
	}
}

func TestAClientCertificateIsNoServerCertificate(t *testing.T) {
	authority, err := NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(Subject{CommonName: "system:node:a", Organizations: []string{"system:nodes"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, authority, pair, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("refused as a client: %v", err)
	}
	if err := verify(t, authority, pair, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("accepted as a server")
	}
}

func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	one, err := NewAuthority("same name", now)
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewAuthority("same name", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := one.Issue(Subject{CommonName: "client"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, two, pair, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("accepted")
	}
}
