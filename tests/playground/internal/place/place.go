// Package place knows the directory of a playground: where each file lies, the
// id derived from its path, and the record of what was started.
package place

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"leasehold.dev/playground/internal/process"
)

// Place is one playground's directory.
type Place struct {
	Directory string
	// ID is derived from the path, so that leftovers are found after the
	// directory is gone.
	ID string
}

// Record is what `up` did, kept in the directory for the other commands.
type Record struct {
	ID         string             `json:"id"`
	Directory  string             `json:"directory"`
	Kubeconfig string             `json:"kubeconfig"`
	Server     string             `json:"server"`
	Ready      bool               `json:"ready"`
	Packages   string             `json:"packages,omitempty"`
	Processes  []process.Identity `json:"processes"`
	Nodes      []Node             `json:"nodes,omitempty"`
	Simulated  []string           `json:"simulatedNodes,omitempty"`
}

// Node is one real node.
type Node struct {
	Name     string           `json:"name"`
	Address  string           `json:"address"`
	Pods     string           `json:"pods"`
	Scenario string           `json:"scenario"`
	Init     process.Identity `json:"init"`
}

// At names the place of a directory, which need not exist.
func At(directory string) (Place, error) {
	if directory == "" {
		return Place{}, errors.New("--dir is missing: name a directory for this playground")
	}
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return Place{}, fmt.Errorf("failed to find %s: %w", directory, err)
	}
	// The parent outlives the directory, so links are followed in it only.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(absolute)); err == nil {
		absolute = filepath.Join(parent, filepath.Base(absolute))
	}
	sum := sha256.Sum256([]byte(absolute))
	return Place{Directory: absolute, ID: hex.EncodeToString(sum[:4])}, nil
}

// Path joins the elements to the directory.
func (p Place) Path(elements ...string) string {
	return filepath.Join(append([]string{p.Directory}, elements...)...)
}

// Kubeconfig is the administrator's kubeconfig.
func (p Place) Kubeconfig() string { return p.Path("kubeconfig") }

// Log is the log file of a component.
func (p Place) Log(component string) string { return p.Path("logs", component+".log") }

// Node is a path in a real node's directory.
func (p Place) Node(name string, elements ...string) string {
	return p.Path(append([]string{"nodes", name}, elements...)...)
}

var recording sync.Mutex

// Read returns the record; ok is false when nothing was ever started here.
func (p Place) Read() (record Record, ok bool, err error) {
	content, err := os.ReadFile(p.Path("playground.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("failed to read the record: %w", err)
	}
	if err := json.Unmarshal(content, &record); err != nil {
		return Record{}, false, fmt.Errorf("failed to read the record in %s: %w", p.Directory, err)
	}
	return record, true, nil
}

// Change rewrites the record. It is written after every start, so that `down`
// knows what an interrupted `up` left.
func (p Place) Change(change func(*Record)) error {
	recording.Lock()
	defer recording.Unlock()
	record, ok, err := p.Read()
	if err != nil {
		return err
	}
	if !ok {
		record = Record{ID: p.ID, Directory: p.Directory, Kubeconfig: p.Kubeconfig()}
	}
	change(&record)
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the record: %w", err)
	}
	return p.Write(append(content, '\n'), 0o644, "playground.json")
}

// Write puts a file in place in one step and makes its directory.
func (p Place) Write(content []byte, mode fs.FileMode, elements ...string) error {
	path := p.Path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("failed to make the directory of %s: %w", path, err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	return nil
}
