package controlplane

import (
	"fmt"
	"net"
	"strings"

	"leasehold.dev/playground/internal/place"
)

// ports are free ports on loopback, found anew for every attempt.
type ports struct{ etcd, peer, apiserver, controllerManager, scheduler int }

func freePorts() (ports, error) {
	var found ports
	var listeners []net.Listener
	defer func() {
		for _, listener := range listeners {
			listener.Close()
		}
	}()
	// All stay open until the last is found, so that no port comes twice.
	for _, port := range []*int{&found.etcd, &found.peer, &found.apiserver, &found.controllerManager, &found.scheduler} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("failed to find a free port on loopback: %w", err)
		}
		listeners = append(listeners, listener)
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return found, nil
}

func etcdArguments(at place.Place, p ports) []string {
	client, peer := fmt.Sprintf("https://127.0.0.1:%d", p.etcd), fmt.Sprintf("https://127.0.0.1:%d", p.peer)
	return []string{
		"--name=playground",
		"--data-dir=" + at.Path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=playground=" + peer,
		"--client-cert-auth", "--trusted-ca-file=" + at.Path("pki", "etcd-ca.crt"),
		"--cert-file=" + at.Path("pki", "etcd.crt"), "--key-file=" + at.Path("pki", "etcd.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + at.Path("pki", "etcd-ca.crt"),
		"--peer-cert-file=" + at.Path("pki", "etcd.crt"), "--peer-key-file=" + at.Path("pki", "etcd.key"),
		// Nothing here has to survive a power cut.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
}

func apiserverArguments(at place.Place, p ports, advertise net.IP, audit []string) []string {
	arguments := []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.apiserver),
		"--advertise-address=" + advertise.String(),
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", p.etcd),
		"--etcd-cafile=" + at.Path("pki", "etcd-ca.crt"),
		"--etcd-certfile=" + at.Path("pki", "etcd-client.crt"), "--etcd-keyfile=" + at.Path("pki", "etcd-client.key"),
		"--tls-cert-file=" + at.Path("pki", "apiserver.crt"), "--tls-private-key-file=" + at.Path("pki", "apiserver.key"),
		"--client-ca-file=" + at.Path("pki", "cluster-ca.crt"),
		"--kubelet-certificate-authority=" + at.Path("pki", "cluster-ca.crt"),
		"--kubelet-client-certificate=" + at.Path("pki", "kubelet-client.crt"),
		"--kubelet-client-key=" + at.Path("pki", "kubelet-client.key"),
		// Node names resolve nowhere.
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + at.Path("pki", "front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + at.Path("pki", "front-proxy.crt"),
		"--proxy-client-key-file=" + at.Path("pki", "front-proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + at.Path("pki", "service-account.pub"),
		"--service-account-signing-key-file=" + at.Path("pki", "service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--anonymous-auth=false", "--allow-privileged=true", "--profiling=false",
	}
	if len(audit) > 0 {
		arguments = append(arguments,
			"--audit-policy-file="+at.Path("audit-policy.yaml"), "--audit-log-path="+at.Path("audit.log"))
	}
	return arguments
}

// auditPolicy says who did what with which result, without contents.
func auditPolicy(users []string) []byte {
	return fmt.Appendf(nil, `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, users: [%s]}, {level: None}]
`, strings.Join(users, ", "))
}

func controllerManagerArguments(at place.Place, p ports) []string {
	kubeconfig := at.Path("pki", "controller-manager.kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.controllerManager),
		"--tls-cert-file=" + at.Path("pki", "controller-manager.crt"),
		"--tls-private-key-file=" + at.Path("pki", "controller-manager.key"),
		"--root-ca-file=" + at.Path("pki", "cluster-ca.crt"),
		"--cluster-signing-cert-file=" + at.Path("pki", "cluster-ca.crt"),
		"--cluster-signing-key-file=" + at.Path("pki", "cluster-ca.key"),
		"--service-account-private-key-file=" + at.Path("pki", "service-account.key"),
		"--use-service-account-credentials", "--leader-elect=false", "--profiling=false",
		// The default of 20 requests a second would be what a test measures.
		"--kube-api-qps=5000", "--kube-api-burst=5000", "--concurrent-job-syncs=50",
	}
}

func schedulerArguments(at place.Place, p ports) []string {
	kubeconfig := at.Path("pki", "scheduler.kubeconfig")
	return []string{
		"--config=" + at.Path("scheduler.yaml"),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.scheduler),
		"--tls-cert-file=" + at.Path("pki", "scheduler.crt"), "--tls-private-key-file=" + at.Path("pki", "scheduler.key"),
	}
}

func schedulerConfiguration(at place.Place) []byte {
	return fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
enableProfiling: false
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
`, at.Path("pki", "scheduler.kubeconfig"))
}
