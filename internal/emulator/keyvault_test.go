package emulator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/keyvault"
)

// TestKeyVault makes, deletes, recovers and purges a vault, as azurerm and az do.
func TestKeyVault(t *testing.T) {
	b := newBench(t, Options{})
	const (
		kv   = group + "/providers/" + arm.ID(keyvault.TypeVault) + "/v1"
		all  = arm.ID("/subscriptions/"+sub) + "/providers/Microsoft.KeyVault"
		gone = all + "/locations/westeurope/deletedVaults/v1"
		body = `{"location":"westeurope","tags":{"a":"b"},"properties":{"tenantId":"` +
			DefaultTenant + `","sku":{"family":"A","name":"standard"},"softDeleteRetentionInDays":7}}`
		version = "2023-07-01"
	)
	b.refused(http.MethodGet, gone, "", 404, "DeletedVaultNotFound")
	if status, code := b.try(http.MethodPut, kv, version, body); status != 200 {
		t.Fatalf("PUT of a new vault: %d %s", status, code)
	}
	p := kernel.ObjectAt(b.get(kv), "properties")
	if kernel.Text(p, "vaultUri") != "https://v1.vault.azure.net/" ||
		p["enableSoftDelete"] != true || kernel.Text(p, "provisioningState") != "Succeeded" {
		t.Errorf("the vault is %v", p)
	}
	if status, _ := b.try(http.MethodDelete, kv, version, ""); status != 200 {
		t.Errorf("DELETE: %d", status)
	}
	b.refused(http.MethodPut, kv, body, 409, "ConflictError")
	p = kernel.ObjectAt(b.get(gone), "properties")
	if !strings.EqualFold(kernel.Text(p, "vaultId"), string(kv)) ||
		kernel.Text(p, "tags", "a") != "b" {
		t.Errorf("the deleted vault is %v", p)
	}
	if listed := kernel.ListAt(b.get(all+"/deletedVaults"), "value"); len(listed) != 1 {
		t.Errorf("the deleted vaults are %v", listed)
	}
	b.put(kv, strings.Replace(body, `"properties":{`, `"properties":{"createMode":"recover",`, 1))
	b.refused(http.MethodGet, gone, "", 404, "DeletedVaultNotFound")
	if days := kernel.NumberOf(b.get(kv), "properties", "softDeleteRetentionInDays"); days != 7 {
		t.Errorf("the recovered vault keeps deleted things for %d days", days)
	}
	// the group's deletion deletes the vault, too
	if status, code := b.try(http.MethodDelete, group, "2024-03-01", ""); status != 200 {
		t.Fatalf("DELETE of the group: %d %s", status, code)
	}
	if status, code := b.try(http.MethodPost, gone+"/purge", version, ""); status != 200 {
		t.Errorf("purge: %d %s", status, code)
	}
	b.refused(http.MethodGet, gone, "", 404, "DeletedVaultNotFound")
	b.put(group, `{"location":"westeurope"}`)
	b.put(kv, body)
}

// TestPlainHeader: an answer says that the emulator does not know a type, and so does the refusal
// of its actions.
func TestPlainHeader(t *testing.T) {
	b := newBench(t, Options{})
	const app = group + "/providers/Microsoft.App/containerApps/a"
	call := func(method string, id arm.ID, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://h"+string(id)+"?api-version=2024-03-01",
			strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := httptest.NewRecorder()
		b.e.ServeHTTP(w, r)
		return w
	}
	for _, w := range []*httptest.ResponseRecorder{
		call(http.MethodPut, app, `{"location":"westeurope"}`), call(http.MethodGet, app, ""),
	} {
		if got := w.Header().Get(kernel.PlainHeader); got != "Microsoft.App/containerApps" {
			t.Errorf("the header is %q", got)
		}
	}
	if w := call(http.MethodPost, app+"/listSecrets", ""); w.Code < 400 ||
		!strings.Contains(w.Body.String(), "as a plain document") {
		t.Errorf("an action: %d %s", w.Code, w.Body)
	}
	if w := call(http.MethodGet, group, ""); w.Header().Get(kernel.PlainHeader) != "" {
		t.Errorf("a known type has the header")
	}
}
