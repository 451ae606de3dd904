// Package keyvault is Microsoft.KeyVault: vaults, as far as Resource Manager knows them, and the
// deleted ones until they are purged or recovered. There are no keys, secrets and certificates.
package keyvault

import (
	"net/http"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// The resource types of vaults, and of deleted ones.
const (
	TypeVault   = "Microsoft.KeyVault/vaults"
	TypeDeleted = "Microsoft.KeyVault/locations/deletedVaults"
)

// KeyVault is Microsoft.KeyVault.
type KeyVault struct{ kernel *kernel.Kernel }

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel) *KeyVault {
	s := &KeyVault{k}
	k.Add(kernel.Service{Calls: []kernel.Special{s.call}, Types: []kernel.Kind{
		{Name: TypeVault, Tracked: true, Immediate: true, Merges: true,
			PutStatus: http.StatusOK, Settle: s.settle, Stored: s.stored, Show: s.show,
			Removed: s.removed, ReadOnly: []string{"provisioningState"}},
		{Name: TypeDeleted, Immediate: true, Missing: [2]string{"DeletedVaultNotFound",
			"The specified deleted vault '{name}' does not exist. Ensure that the vault was " +
				"indeed deleted and that it is in recoverable state. If soft delete was not " +
				"enabled then the vault is permanently deleted. Follow this link for more " +
				"information: https://go.microsoft.com/fwlink/?linkid=2149745"}},
	}})
	return s
}

// deleted returns the ID of a vault after its deletion.
func deleted(vault *kernel.Resource) arm.ID {
	return arm.ID("/subscriptions/" + vault.ID.Subscription() +
		"/providers/Microsoft.KeyVault/locations/" + kernel.Text(vault.Body, "location") +
		"/deletedVaults/" + vault.ID.Name())
}

// settle fills in a vault's defaults, or takes a deleted vault's document to recover it (recorded;
// the refusals are documented: general/key-vault-recovery).
func (s *KeyVault) settle(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	gone := s.kernel.Store.Get(deleted(r))
	recovers := kernel.Text(p, "createMode") == "recover"
	delete(p, "createMode")
	switch {
	case old != nil:
	case recovers && gone == nil:
		return s.kernel.Missing(deleted(r))
	case recovers:
		before := kernel.ObjectAt(gone.Body, "vault")
		r.Body["properties"] = kernel.Clone(kernel.ObjectAt(before, "properties"))
		return nil
	case gone != nil:
		return kernel.Fail(http.StatusConflict, "ConflictError", "A vault with the same name "+
			"already exists in deleted state. You need to either recover or purge existing "+
			"key vault. Follow this link https://go.microsoft.com/fwlink/?linkid=2149745 for "+
			"more information on soft delete.")
	}
	if kernel.Text(p, "sku", "name") == "" || kernel.Text(p, "tenantId") == "" {
		return kernel.Bad("BadRequest", "The parameters sku and tenantId are required.")
	}
	kernel.SetDefault(p, "accessPolicies", []any{})
	kernel.SetDefault(p, "enabledForDeployment", false)
	kernel.SetDefault(p, "softDeleteRetentionInDays", 90)
	kernel.SetDefault(p, "publicNetworkAccess", "Enabled")
	p["enableSoftDelete"] = true
	return nil
}

// stored ends the recovery of a vault.
func (s *KeyVault) stored(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	if gone := s.kernel.Store.Get(deleted(r)); gone != nil {
		s.kernel.Remember(gone.ID)
		s.kernel.Store.Remove(gone.ID)
	}
	return nil
}

// show adds the URI of a vault: a path of the emulator, which clients can call.
func (s *KeyVault) show(r *kernel.Resource, doc kernel.Object, version string) {
	p := kernel.ObjectAt(doc, "properties")
	p["vaultUri"] = "https://" + r.ID.Name() + ".vault.azure.net/"
	if at := s.kernel.Server.ListensAt(); at != "" {
		p["vaultUri"] = at + "/_vault/" + r.ID.Name() + "/"
	}
	p["provisioningState"] = "Succeeded"
}

// removed keeps a deleted vault as long as it can be recovered.
func (s *KeyVault) removed(r *kernel.Resource) {
	p, now := r.Properties(), time.Now().UTC()
	days := kernel.NumberOf(p, "softDeleteRetentionInDays")
	properties := kernel.Object{"vaultId": string(r.ID), "location": r.Body["location"],
		"tags": kernel.Object{}, "deletionDate": now.Format(time.RFC3339),
		"scheduledPurgeDate": now.AddDate(0, 0, days).Format(time.RFC3339)}
	if r.Body["tags"] != nil {
		properties["tags"] = kernel.CloneValue(r.Body["tags"])
	}
	if p["enablePurgeProtection"] == true {
		properties["purgeProtectionEnabled"] = true
	}
	s.kernel.Remember(deleted(r))
	s.kernel.Store.Put(s.kernel.NewResource(deleted(r),
		kernel.Object{"properties": properties, "vault": kernel.Clone(r.Body)}, nil))
}

// document returns a deleted vault as it is shown.
func document(r *kernel.Resource) kernel.Object {
	return kernel.Object{"id": string(r.ID), "name": r.ID.Name(),
		"type": "Microsoft.KeyVault/deletedVaults", "properties": r.Body["properties"]}
}

// call answers for deleted vaults, and says whether a name is free.
func (s *KeyVault) call(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if len(c.Path) < 5 || !strings.EqualFold(c.Path[2], "providers") ||
		!strings.EqualFold(c.Path[3], "Microsoft.KeyVault") {
		return kernel.Reply{}, nil, false
	}
	id := c.ID(min(8, len(c.Path)))
	words := strings.ToLower(strings.Join(c.Path[4:], "/"))
	switch {
	case c.Method == http.MethodPost && words == "checknameavailability":
		return s.nameAvailability(c), nil, true
	case c.Method == http.MethodGet && words == "deletedvaults":
		all := []kernel.Object{}
		for _, r := range s.kernel.Store.List(TypeDeleted, arm.SubscriptionID(c.Path[1])) {
			all = append(all, document(r))
		}
		answer, f := s.kernel.PageObjects(c, all)
		return answer, f, true
	case len(c.Path) < 8 || !id.Is(TypeDeleted):
		return kernel.Reply{}, nil, false
	}
	r := s.kernel.Store.Get(id)
	switch purges := len(c.Path) == 9 && strings.EqualFold(c.Path[8], "purge"); {
	case r == nil:
		return kernel.Reply{}, s.kernel.Missing(id), true
	case c.Method == http.MethodGet && len(c.Path) == 8:
		return kernel.OK(document(r)), nil, true
	case c.Method != http.MethodPost || !purges:
		return kernel.Reply{}, kernel.NotFound(c), true
	case r.Properties()["purgeProtectionEnabled"] == true: // code [U]
		return kernel.Reply{}, kernel.Fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"Operation \"DeletedVaultPurge\" is not allowed. Purge protection is enabled."), true
	}
	s.kernel.Remember(id)
	s.kernel.Store.Remove(id)
	s.kernel.Record(c, id, "purge/action", nil)
	return s.kernel.Accepted(c, nil), nil, true
}

// nameAvailability answers whether a vault can have a name.
func (s *KeyVault) nameAvailability(c *kernel.Call) kernel.Reply {
	asked, _ := kernel.DecodeObject(c.Body)
	name := kernel.Text(asked, "name")
	for _, t := range []string{TypeVault, TypeDeleted} {
		for _, r := range s.kernel.Store.List(t, "") {
			if strings.EqualFold(r.ID.Name(), name) {
				return kernel.OK(kernel.Object{"nameAvailable": false, "reason": "AlreadyExists",
					"message": "The vault name '" + name + "' is already in use."})
			}
		}
	}
	return kernel.OK(kernel.Object{"nameAvailable": true})
}
