package controlplane

import (
	"context"
	"fmt"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// kubeletClient is who the API server is when it asks a kubelet for logs,
// exec or port-forward.
const kubeletClient = "playground:kube-apiserver"

func grant(ctx context.Context, client kubernetes.Interface) error {
	if err := bind(ctx, client, kubeletClient, "system:kubelet-api-admin"); err != nil {
		return fmt.Errorf("failed to let the API server talk to kubelets: %w", err)
	}
	return nil
}

// bind gives a user a role in the whole cluster.
func bind(ctx context.Context, client kubernetes.Interface, user, role string) error {
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: user},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: user}},
	}, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
