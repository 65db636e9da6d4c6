package installation

import (
	"encoding/pem"
	"strings"
	"testing"
)

func TestOnlyCertificatesOfTheHostItselfAreGiven(t *testing.T) {
	certificate := func(text string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)})
	}
	bundle := append(append([]byte("# a comment\n"), certificate("public")...), certificate("company")...)
	if got := own(bundle, map[string]bool{"public": true}); got != string(certificate("company")) {
		t.Errorf("got %q", got)
	}
	if got := own(certificate(strings.Repeat("x", largest)), nil); got != "" {
		t.Errorf("a bundle of %d bytes was given", len(got))
	}
}

func TestTheIndexOfPipIsThatOfItsGlobalSection(t *testing.T) {
	for configuration, want := range map[string]string{
		"[global]\ncert = /etc/ca.crt\nindex-url = https://mirror.example/simple\n": "https://mirror.example/simple",
		"[download]\nindex-url = https://other.example/simple\n":                    "",
		"": "",
	} {
		if got := indexOf([]byte(configuration)); got != want {
			t.Errorf("%q: got %q, want %q", configuration, got, want)
		}
	}
}
