package card

import (
	"strings"
	"testing"
)

const catalog = `id,notes,nvidia_smi_name,gfd_product_label,gfd_family,compute_capability,memory_mib_nvidia_smi,nvsmi_power_cap_w,nvsmi_ecc_column,mig_max_instances
rtx4090,"a, b",NVIDIA GeForce RTX 4090,NVIDIA-GeForce-RTX-4090,ada-lovelace,8.9,24564,450,Off,0
`

func stock(t *testing.T, node, batch string) (Inventory, error) {
	t.Helper()
	parsed, err := Parse(strings.NewReader(catalog))
	if err != nil {
		t.Fatal(err)
	}
	batches, err := ParseBatches(batch)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Stock("id", node, batches[0], Driver{Version: "550.107.02", CUDA: "12.4"})
}

func TestLabelsAreThoseOfFeatureDiscovery(t *testing.T) {
	inventory, err := stock(t, "node-1", "rtx4090:2")
	if err != nil {
		t.Fatal(err)
	}
	labels := inventory.Labels()
	for name, want := range map[string]string{
		"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.memory": "24564", "nvidia.com/gpu.count": "2",
		"nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "9", "nvidia.com/cuda.driver-version.revision": "02",
		"nvidia.com/cuda.runtime-version.full": "12.4",
	} {
		if labels[name] != want {
			t.Errorf("%s is %q, want %q", name, labels[name], want)
		}
	}
}

func TestCardsOfTwoNodesHaveDifferentIdentities(t *testing.T) {
	seen := map[string]bool{}
	for _, node := range []string{"node-1", "node-2"} {
		inventory, err := stock(t, node, "rtx4090:8")
		if err != nil {
			t.Fatal(err)
		}
		for _, card := range inventory.Cards {
			if seen[card.UUID] {
				t.Errorf("%s comes twice", card.UUID)
			}
			seen[card.UUID] = true
		}
	}
}

func TestAnUnknownCardNamesTheKnownOnes(t *testing.T) {
	_, err := stock(t, "node-1", "rtx9090:1")
	if err == nil || !strings.Contains(err.Error(), "rtx4090") {
		t.Errorf("got %v", err)
	}
}

func TestANodeWithoutCardsHasNoLabels(t *testing.T) {
	inventory, err := stock(t, "node-1", "none")
	if err != nil || inventory.Labels() != nil {
		t.Errorf("got %v, %v", inventory, err)
	}
}
