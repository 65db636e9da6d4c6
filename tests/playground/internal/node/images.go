package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/distribution/reference"

	"leasehold.dev/playground/internal/network"
	"leasehold.dev/playground/internal/place"
)

// writePauseImage packs the program that holds a pod's namespaces open as an
// image archive of one layer.
func writePauseImage(program string, at place.Place, node string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("failed to read the pause program: %w", err)
	}
	archive, err := imageArchive(pauseImage, "pause", binary)
	if err != nil {
		return err
	}
	return at.Write(archive, 0o644, "nodes", node, "pause.tar")
}

// imageArchive makes a `docker save` archive whose only file is the program.
func imageArchive(name, file string, program []byte) ([]byte, error) {
	layer, err := pack(map[string][]byte{file: program}, file)
	if err != nil {
		return nil, err
	}
	configuration, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/" + file}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to encode the configuration of image %s: %w", name, err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, fmt.Errorf("failed to encode the manifest of image %s: %w", name, err)
	}
	return pack(map[string][]byte{"layer.tar": layer, "config.json": configuration, "manifest.json": manifest}, "layer.tar", "config.json", "manifest.json")
}

func pack(files map[string][]byte, order ...string) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, name := range order {
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			return nil, fmt.Errorf("failed to pack %s: %w", name, err)
		}
		if _, err := writer.Write(files[name]); err != nil {
			return nil, fmt.Errorf("failed to pack %s: %w", name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("failed to pack an archive: %w", err)
	}
	return buffer.Bytes(), nil
}

var unpacking = regexp.MustCompile(`(?m)^unpacking (\S+) `)

// LoadImage imports an image archive into a node and gives it more names. It
// returns all names of the image.
func LoadImage(record place.Record, node place.Node, archive string, names []string) ([]string, error) {
	output, err := containerdClient(record, node, "images", "import", archive)
	if err != nil {
		return nil, err
	}
	var loaded []string
	for _, match := range unpacking.FindAllStringSubmatch(output, -1) {
		loaded = append(loaded, match[1])
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("archive %s holds no image with a name: save it with one (RepoTags or org.opencontainers.image.ref.name)", archive)
	}
	if len(names) > 0 && len(loaded) > 1 {
		return nil, fmt.Errorf("archive %s holds %d images (%s): --as needs an archive with one", archive, len(loaded), strings.Join(loaded, " "))
	}
	source := loaded[0]
	for _, name := range names {
		// The kubelet asks for the full form of what a pod says.
		full, err := reference.ParseDockerRef(name)
		if err != nil {
			return nil, fmt.Errorf("%q is no image name: %w", name, err)
		}
		if full.String() == source {
			continue
		}
		if _, err := containerdClient(record, node, "images", "tag", "--force", source, full.String()); err != nil {
			return nil, err
		}
		loaded = append(loaded, full.String())
	}
	return loaded, nil
}

// containerdClient runs ctr on the host; the socket is found through the
// node's first process, since it lies in the node's own /run.
func containerdClient(record place.Record, node place.Node, arguments ...string) (string, error) {
	if !node.Init.Alive() {
		return "", fmt.Errorf("node %s does not run", node.Name)
	}
	socket := fmt.Sprintf("/proc/%d/root%s", node.Init.PID, containerdSocket)
	command := exec.Command(filepath.Join(record.Packages, "usr/bin/ctr"), append([]string{"--address", socket, "--namespace", "k8s.io"}, arguments...)...)
	command.Env = append(os.Environ(), network.Libraries(record.Packages)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("failed to run ctr %s on node %s: %w: %s", strings.Join(arguments, " "), node.Name, err, bytes.TrimSpace(output))
	}
	return string(output), nil
}
