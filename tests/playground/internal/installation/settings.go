// Package installation writes the settings with which an operator's pods reach
// package indexes where the host reaches them: its own certificate authorities
// and its mirror.
package installation

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// distributed is where Debian keeps the authorities that every image with
// certificates has too.
const distributed = "/usr/share/ca-certificates"

// largest is what the operator accepts.
const largest = 65_536

type settings struct {
	Currency string   `json:"currency"`
	CABundle string   `json:"caBundle,omitempty"`
	Mirrors  *mirrors `json:"mirrors,omitempty"`
}

type mirrors struct {
	PyPI pypi `json:"pypi"`
}

type pypi struct {
	Index string `json:"index"`
}

// Settings is the file for `leasehold run --settings` on this host.
func Settings() ([]byte, error) {
	s := settings{Currency: "USD"}
	bundle, err := os.ReadFile(firstOf(os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt"))
	if err == nil {
		s.CABundle = own(bundle, known(distributed))
	}
	note := ""
	switch index := index(); {
	case index == "":
	case isSecret(index):
		note = "# This host's Python index is not here because its address has a password: settings go into every pod.\n"
	default:
		s.Mirrors = &mirrors{PyPI: pypi{Index: index}}
	}
	content, err := yaml.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the settings: %w", err)
	}
	return append([]byte(note), content...), nil
}

// own is the certificates of a bundle that are not known: those that this host
// has beyond its distribution's. A host whose distribution keeps them elsewhere
// would give all of them, more than an operator takes; then there are none.
func own(bundle []byte, known map[string]bool) string {
	var text strings.Builder
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" && !known[string(block.Bytes)] {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	if text.Len() > largest {
		return ""
	}
	return text.String()
}

func known(directory string) map[string]bool {
	found := map[string]bool{}
	// What cannot be read is not known.
	_ = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			found[string(block.Bytes)] = true
		}
		return nil
	})
	return found
}

// isSecret tells of an address that is for this host's user alone. What cannot
// be read may have a password too.
func isSecret(address string) bool {
	parsed, err := url.Parse(address)
	return err != nil || parsed.User != nil
}

// index is the Python index that this host uses in place of the public one.
func index() string {
	home, _ := os.UserHomeDir()
	found := firstOf(os.Getenv("PIP_INDEX_URL"), os.Getenv("UV_DEFAULT_INDEX"))
	for _, file := range []string{
		os.Getenv("PIP_CONFIG_FILE"), filepath.Join(home, ".config/pip/pip.conf"), filepath.Join(home, ".pip/pip.conf"), "/etc/pip.conf",
	} {
		if content, err := os.ReadFile(file); err == nil {
			found = firstOf(found, indexOf(content))
		}
	}
	return found
}

// indexOf is `index-url` of the section `global` of pip's configuration.
func indexOf(configuration []byte) string {
	section := ""
	for lines := bufio.NewScanner(bytes.NewReader(configuration)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && section == "global" && (key == "index-url" || key == "index_url") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
