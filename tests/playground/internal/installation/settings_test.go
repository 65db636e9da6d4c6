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

func TestAnIndexWithAPasswordIsNotWrittenDown(t *testing.T) {
	t.Setenv("UV_DEFAULT_INDEX", "")
	for address, is := range map[string]bool{
		"https://mirror.example/simple":              true,
		"https://user:s3cret-word@mirror.example/a":  false,
		"https://s3cret-word@mirror.example/simple":  false,
		"https://s3cret-word:%zz@mirror.example/sim": false,
	} {
		t.Setenv("PIP_INDEX_URL", address)
		content, err := Settings()
		if err != nil || strings.Contains(string(content), "mirror.example") != is || strings.Contains(string(content), "s3cret") {
			t.Errorf("%s: %v\n%s", address, err, content)
		}
	}
}
