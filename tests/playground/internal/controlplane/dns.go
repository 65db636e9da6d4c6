package controlplane

import (
	"context"
	"fmt"
	"net"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

const (
	// DNSAddress is the cluster address of the `kube-dns` Service.
	DNSAddress = "10.96.0.10"
	// DNSUser is who the cluster's DNS is to the API server.
	DNSUser = "playground:coredns"
)

// PublishDNS makes the Service `kube-dns` for a server that runs at the address
// outside of pods, and lets the server read what it answers from.
func PublishDNS(ctx context.Context, client kubernetes.Interface, address net.IP) error {
	ports := map[string]core.Protocol{"dns": core.ProtocolUDP, "dns-tcp": core.ProtocolTCP}
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "kube-dns", Labels: map[string]string{"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}},
		// Without a selector, since no pod stands behind it.
		Spec: core.ServiceSpec{ClusterIP: DNSAddress},
	}
	slice := &discovery.EndpointSlice{
		ObjectMeta:  meta.ObjectMeta{Name: "kube-dns", Labels: map[string]string{discovery.LabelServiceName: "kube-dns"}},
		AddressType: discovery.AddressTypeIPv4,
		Endpoints:   []discovery.Endpoint{{Addresses: []string{address.String()}}},
	}
	for name, protocol := range ports {
		port := int32(53)
		service.Spec.Ports = append(service.Spec.Ports, core.ServicePort{Name: name, Protocol: protocol, Port: port, TargetPort: intstr.FromInt32(port)})
		slice.Ports = append(slice.Ports, discovery.EndpointPort{Name: &name, Protocol: &protocol, Port: &port})
	}
	reads := func(group string, resources ...string) rbac.PolicyRule {
		return rbac.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
	}
	name := meta.ObjectMeta{Name: DNSUser}
	var failure error
	for _, create := range []func() error{
		func() error {
			_, err := client.CoreV1().Services("kube-system").Create(ctx, service, meta.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.DiscoveryV1().EndpointSlices("kube-system").Create(ctx, slice, meta.CreateOptions{})
			return err
		},
		func() error {
			role := &rbac.ClusterRole{ObjectMeta: name, Rules: []rbac.PolicyRule{
				reads("", "namespaces", "pods", "services"), reads("discovery.k8s.io", "endpointslices"),
			}}
			_, err := client.RbacV1().ClusterRoles().Create(ctx, role, meta.CreateOptions{})
			return err
		},
		func() error { return bind(ctx, client, DNSUser, DNSUser) },
	} {
		if failure = create(); failure != nil {
			return fmt.Errorf("failed to publish the cluster's DNS: %w", failure)
		}
	}
	return nil
}
