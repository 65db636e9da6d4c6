package node

import (
	"fmt"

	"leasehold.dev/playground/internal/controlplane"
	"leasehold.dev/playground/internal/network"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	pauseImage       = "leasehold.local/playground/pause:1"
)

// containerd's restrict_oom_score_adj is for machines without
// CAP_SYS_RESOURCE, where runc may not lower the value and every container
// would die while starting.
func (s Specification) containerd() []byte {
	return fmt.Appendf(nil, `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = %[1]q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = %[2]q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = %[3]q
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[4]q
    conf_dir = %[5]q
`, containerdSocket, pauseImage, s.Packages+"/usr/sbin/runc", s.Packages+"/usr/lib/cni", s.path("cni"))
}

// The bridge does not masquerade: the router knows the way to the pods, so their
// own addresses are seen everywhere up to the way outside.
func (s Specification) bridge() []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "1.0.0",
  "name": "playground",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true, "mtu": %d,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, network.MTU, s.Pods)
}

// localStorageCapacityIsolation is off because the device of the root file
// system is often not visible; failCgroupV1 is off because the first version
// of control groups is still met. A changed status is sent within two seconds,
// an unchanged one every minute.
func (s Specification) kubelet(authority string) []byte {
	return fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]q
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[2]q}}
authorization: {mode: Webhook}
tlsCertFile: %[3]q
tlsPrivateKeyFile: %[4]q
readOnlyPort: 0
containerRuntimeEndpoint: "unix://%[5]s"
cgroupDriver: cgroupfs
cgroupRoot: "/%[6]s"
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
resolvConf: %[7]q
volumePluginDir: %[8]q
clusterDNS: [%[9]q]
clusterDomain: cluster.local
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 200
kubeAPIBurst: 400
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 1m
syncFrequency: 10s
shutdownGracePeriod: 0s
evictionHard: {memory.available: "100Mi", nodefs.available: "1%%", imagefs.available: "1%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`, s.Address, authority, s.path("kubelet.crt"), s.path("kubelet.key"), containerdSocket, s.cgroup(),
		s.path("resolv.conf"), s.path("volume-plugins"), controlplane.DNSAddress)
}

// The limits on tracked connections are the host's to set. A pod's own address
// is seen by the pods that it talks to, also through a Service.
func (s Specification) proxy() []byte {
	return fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: %q
clientConnection: {kubeconfig: %q}
clusterCIDR: %q
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {localhostNodePorts: false, minSyncPeriod: 100ms}
`, s.Name, s.path("kube-proxy.kubeconfig"), s.Cluster)
}
