package inventory

// machineCounts is what the document of a virtual machine pool has instead of count, which is null:
// how many machines of each size are wanted, and how many run (az aks show of November 2025; the
// autoscaler counts the latter, kubernetes/autoscaler, azure_vms_pool.go).
type machineCounts struct {
	Machines struct {
		Scale struct {
			Manual    []sized `json:"manual"`
			Autoscale struct {
				MaxCount int `json:"maxCount"`
			} `json:"autoscale"`
		} `json:"scale"`
	} `json:"virtualMachinesProfile"`
	Running []sized `json:"virtualMachineNodesStatus"`
}

type sized struct {
	Count int `json:"count"`
}

// count returns the larger number: a list of network interfaces is complete only if it has that
// many.
func (m machineCounts) count() int {
	wanted, running := 0, 0
	for _, s := range m.Machines.Scale.Manual {
		wanted += s.Count
	}
	for _, s := range m.Running {
		running += s.Count
	}
	return max(wanted, running)
}
