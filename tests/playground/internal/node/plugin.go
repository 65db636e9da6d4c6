package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"leasehold.dev/playground/internal/card"
	"leasehold.dev/playground/internal/smi"
)

const (
	pluginSocket = "playground-gpu.sock"
	resource     = "nvidia.com/gpu"
)

// plugin offers a node's simulated cards to its kubelet.
type plugin struct {
	plugins.UnimplementedDevicePluginServer
	directory string
	inventory card.Inventory
}

// ServePlugin runs the device plugin of the node in this directory. It
// registers anew whenever the kubelet makes a new socket, that is, whenever the
// kubelet has started.
func ServePlugin(directory string) error {
	content, err := os.ReadFile(filepath.Join(directory, "gpu", "cards.json"))
	if err != nil {
		return fmt.Errorf("failed to read the cards: %w", err)
	}
	p := &plugin{directory: directory}
	if err := json.Unmarshal(content, &p.inventory); err != nil {
		return fmt.Errorf("failed to read the cards: %w", err)
	}
	var server *grpc.Server
	var registered os.FileInfo
	for ; ; time.Sleep(200 * time.Millisecond) {
		kubelet, err := os.Stat(plugins.KubeletSocket)
		// Without cards nothing is registered, as where no plugin runs.
		if err != nil || len(p.inventory.Cards) == 0 || registered != nil && os.SameFile(kubelet, registered) && kubelet.ModTime().Equal(registered.ModTime()) {
			continue
		}
		if server != nil {
			server.Stop()
		}
		// The kubelet empties the directory when it starts.
		if server, err = p.serve(); err == nil {
			err = register()
		}
		if err != nil {
			log.Printf("failed to register with the kubelet: %v", err)
			continue
		}
		log.Printf("registered %d cards", len(p.inventory.Cards))
		registered = kubelet
	}
}

func (p *plugin) serve() (*grpc.Server, error) {
	path := filepath.Join(plugins.DevicePluginPath, pluginSocket)
	if err := os.RemoveAll(path); err != nil {
		return nil, fmt.Errorf("failed to remove the old socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("failed to listen: %w", err)
	}
	server := grpc.NewServer()
	plugins.RegisterDevicePluginServer(server, p)
	// It ends when the server is stopped for the next registration.
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

func register() error {
	connection, err := grpc.NewClient("unix://"+plugins.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("failed to reach the kubelet: %w", err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = plugins.NewRegistrationClient(connection).Register(ctx, &plugins.RegisterRequest{
		Version: plugins.Version, Endpoint: pluginSocket, ResourceName: resource,
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *plugins.Empty) (*plugins.DevicePluginOptions, error) {
	return &plugins.DevicePluginOptions{}, nil
}

// ListAndWatch reports the health of the cards whenever the scenario changes
// it. A sick card stays in capacity and leaves allocatable.
func (p *plugin) ListAndWatch(_ *plugins.Empty, stream plugins.DevicePlugin_ListAndWatchServer) error {
	var last []string
	for first := true; ; first = false {
		var sick []string
		if scenario, err := smi.ReadScenario(filepath.Join(p.directory, "gpu")); err == nil {
			sick = scenario.Unhealthy
		}
		if first || !slices.Equal(sick, last) {
			devices := make([]*plugins.Device, 0, len(p.inventory.Cards))
			for _, each := range p.inventory.Cards {
				health := plugins.Healthy
				if slices.Contains(sick, fmt.Sprint(each.Index)) || slices.Contains(sick, each.UUID) {
					health = plugins.Unhealthy
				}
				devices = append(devices, &plugins.Device{ID: each.UUID, Health: health})
			}
			if err := stream.Send(&plugins.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			last = sick
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Allocate gives a container what the container toolkit would: device files,
// nvidia-smi, and the variable that names the cards.
func (p *plugin) Allocate(_ context.Context, request *plugins.AllocateRequest) (*plugins.AllocateResponse, error) {
	scenario, err := smi.ReadScenario(filepath.Join(p.directory, "gpu"))
	if err != nil {
		return nil, err
	}
	response := &plugins.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		log.Printf("allocate %s", strings.Join(container.DevicesIds, ","))
		one := &plugins.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
			Mounts: []*plugins.Mount{{
				HostPath: filepath.Join(p.directory, "gpu"), ContainerPath: smi.Directory, ReadOnly: true,
			}},
		}
		if !scenario.WithoutProgram {
			one.Mounts = append(one.Mounts, &plugins.Mount{
				HostPath: filepath.Join(p.directory, "nvidia-smi"), ContainerPath: "/usr/bin/nvidia-smi", ReadOnly: true,
			})
		}
		if !scenario.WithoutDevices {
			files := []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}
			for _, each := range p.inventory.Cards {
				if slices.Contains(container.DevicesIds, each.UUID) {
					files = append(files, fmt.Sprintf("nvidia%d", each.Index))
				}
			}
			for _, file := range files {
				one.Devices = append(one.Devices, &plugins.DeviceSpec{HostPath: "/dev/null", ContainerPath: "/dev/" + file, Permissions: "rw"})
			}
		}
		response.ContainerResponses = append(response.ContainerResponses, one)
	}
	return response, nil
}

func (p *plugin) GetPreferredAllocation(context.Context, *plugins.PreferredAllocationRequest) (*plugins.PreferredAllocationResponse, error) {
	return &plugins.PreferredAllocationResponse{}, nil
}

func (p *plugin) PreStartContainer(context.Context, *plugins.PreStartContainerRequest) (*plugins.PreStartContainerResponse, error) {
	return &plugins.PreStartContainerResponse{}, nil
}
