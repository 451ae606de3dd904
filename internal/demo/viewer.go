package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// viewer is a client of the emulator that shares no code with the keeper's client: it reads and
// writes JSON over HTTPS.
type viewer struct {
	info  emulator.Info
	http  *http.Client
	token string
}

// newViewer logs in.
func newViewer(ctx context.Context, info emulator.Info, as emulator.Principal) (*viewer, error) {
	client, err := info.Client()
	if err != nil {
		return nil, err
	}
	v := &viewer{info: info, http: client}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {as.ClientID},
		"client_secret": {as.Secret}, "resource": {"https://management.core.windows.net/"}}
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if _, err := v.do(ctx, http.MethodPost, info.HTTPS+"/"+info.TenantID+"/oauth2/token",
		strings.NewReader(form.Encode()), &answer); err != nil {
		return nil, err
	}
	v.token = answer.AccessToken
	return v, nil
}

// do makes a call and decodes its JSON answer; it returns the status.
func (v *viewer) do(ctx context.Context, method, address string, body io.Reader, into any) (int,
	error) {
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return 0, err
	}
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	} else {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := v.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, err
	}
	if response.StatusCode >= 300 {
		return response.StatusCode, fmt.Errorf("%s %s: %s %s", method, address, response.Status,
			raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return response.StatusCode, d.Decode(into)
}

// version returns the api-version that the viewer uses for a resource.
func version(id arm.ID) string {
	if strings.Contains(id.Key(), "/microsoft.containerservice/") {
		return "2025-10-01"
	}
	return "2025-05-01"
}

// get reads a resource.
func (v *viewer) get(ctx context.Context, id arm.ID) (map[string]any, error) {
	var doc map[string]any
	_, err := v.do(ctx, http.MethodGet, v.info.HTTPS+string(id)+"?api-version="+version(id), nil,
		&doc)
	return doc, err
}

// put writes a resource as a template does: it retries while another operation runs on it.
func (v *viewer) put(ctx context.Context, id arm.ID, doc map[string]any) error {
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	for {
		var answer map[string]any
		status, err := v.do(ctx, http.MethodPut, v.info.HTTPS+string(id)+"?api-version="+
			version(id), bytes.NewReader(raw), &answer)
		if status != http.StatusConflict && status != http.StatusTooManyRequests {
			return err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// control makes a control call of the emulator.
func (v *viewer) control(ctx context.Context, name string, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var answer map[string]any
	_, err = v.do(ctx, http.MethodPost, v.info.HTTP+"/_emulator/"+name, bytes.NewReader(raw),
		&answer)
	return err
}

// table is a route table: its routes by name, each as JSON text without the fields that Azure
// changes.
type table struct {
	doc    map[string]any
	routes map[string]route
}

type route struct {
	name, prefix, hop string
	text              string
}

func (v *viewer) table(ctx context.Context, id arm.ID) (table, error) {
	t := table{routes: map[string]route{}}
	var err error
	if t.doc, err = v.get(ctx, id); err != nil {
		return t, err
	}
	properties, _ := t.doc["properties"].(map[string]any)
	list, _ := properties["routes"].([]any)
	for _, item := range list {
		doc, _ := item.(map[string]any)
		p, _ := doc["properties"].(map[string]any)
		r := route{name: fmt.Sprint(doc["name"]), prefix: fmt.Sprint(p["addressPrefix"]),
			hop: fmt.Sprint(p["nextHopType"])}
		if hop, ok := p["nextHopIpAddress"].(string); ok {
			r.hop = hop
		}
		delete(doc, "etag")
		delete(p, "provisioningState")
		raw, err := json.Marshal(doc)
		if err != nil {
			return t, err
		}
		r.text = string(raw)
		t.routes[r.name] = r
	}
	return t, nil
}

// pods returns the table's routes to nodes, recognised by the demo's addresses, by prefix.
func (t table) pods() map[string]route {
	pods := map[string]route{}
	for name, r := range t.routes {
		if t.isPod(name) {
			pods[r.prefix] = r
		}
	}
	return pods
}

func (t table) isPod(name string) bool {
	r := t.routes[name]
	return strings.HasPrefix(r.prefix, "10.244.") && strings.HasSuffix(r.prefix, ".0/24") &&
		strings.HasPrefix(r.hop, "10.42.1.")
}

// rest returns the text of all other routes by name.
func (t table) rest() map[string]string {
	rest := map[string]string{}
	for _, r := range t.routes {
		if !t.isPod(r.name) {
			rest[r.name] = r.text
		}
	}
	return rest
}
