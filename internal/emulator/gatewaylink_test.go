package emulator

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

const agw = group + "/providers/" + arm.ID(arm.TypeGateway) + "/agw"

// gatewayBody is an Application Gateway in the subnet b.
func gatewayBody(more string) string {
	return `{"location":"westeurope","properties":{"gatewayIPConfigurations":[` +
		ipConfiguration("c", "b", "") + `],"sku":{"tier":"Standard_v2"}` + more + `}}`
}

// TestGatewayPrivateLink: a gateway shows what endpoints can connect to and the endpoints that do,
// and a connection that is rejected or removed there changes the endpoint.
func TestGatewayPrivateLink(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(agw, gatewayBody(`,"frontendIPConfigurations":[{"name":"front","properties":{
		"privateLinkConfiguration":{"id":"`+string(agw)+`/privateLinkConfigurations/l"}}}],
		"privateLinkConfigurations":[{"name":"l","properties":{"ipConfigurations":[`+
		ipConfiguration("ip", "a", "")+`]}}]`))
	shown := kernel.ListAt(b.properties(vnet.Child("subnets", "a")), "privateLinkIpConfigurations")
	if len(shown) != 1 || !strings.HasSuffix(kernel.Text(shown[0], "id"),
		"/privateLinkConfigurations/l/ipConfigurations/ip") ||
		b.properties(vnet.Child("subnets", "a"))["ipConfigurations"] != nil {
		t.Errorf("the subnet shows %s", kernel.Encode(b.properties(vnet.Child("subnets", "a"))))
	}
	if all, _ := b.ask(agw+"/privateLinkResources", ""); len(all) != 1 ||
		kernel.Text(all[0], "properties", "groupId") != "front" {
		t.Errorf("resources: %s", kernel.Encode(kernel.Items(all)))
	}
	endpoint := group + "/providers/" + arm.ID(network.TypePrivateEndpoint) + "/e"
	state := func() string {
		p := b.properties(endpoint)
		return kernel.Text(kernel.ListAt(p, "privateLinkServiceConnections")[0],
			"properties", "privateLinkServiceConnectionState", "status")
	}
	b.put(endpoint, `{"location":"westeurope","properties":{"subnet":{"id":"`+string(vnet)+
		`/subnets/a"},"privateLinkServiceConnections":[{"name":"c","properties":{"groupIds":
		["front"],"privateLinkServiceId":"`+string(agw)+`"}}]}}`)
	ours := kernel.ListAt(b.properties(agw), "privateEndpointConnections")
	if len(ours) != 1 || state() != "Approved" || kernel.Text(ours[0], "name") != "e."+
		kernel.Text(b.properties(endpoint), "resourceGuid") {
		t.Fatalf("the gateway shows %s", kernel.Encode(kernel.Items(ours)))
	}
	connection := arm.ID(kernel.Text(ours[0], "id"))
	b.put(agw, string(kernel.Encode(b.get(agw)))) // what Azure alone writes is ignored
	b.refused(http.MethodPut, connection, `{"properties":{}}`, 400, "InvalidRequestFormat")
	b.put(connection, `{"properties":{"privateLinkServiceConnectionState":{"status":"Rejected",
		"description":null}}}`)
	if got := b.properties(connection); state() != "Rejected" ||
		kernel.ObjectAt(got, "privateLinkServiceConnectionState")["description"] != "" {
		t.Errorf("after the rejection: %s, %s", state(), kernel.Encode(got))
	}
	b.delete(connection)
	if all, _ := b.ask(agw+"/privateEndpointConnections", ""); len(all) != 0 ||
		state() != "Disconnected" {
		t.Errorf("after the delete: %d connections, %s", len(all), state())
	}
	b.refused(http.MethodGet, connection, "", 404, "NotFound")
	if status, _ := b.try(http.MethodDelete, connection, api, ""); status != 204 {
		t.Errorf("the second delete: %d", status)
	}
	b.refused(http.MethodPut, agw+"/privateLinkResources/front", `{}`, 404, "NotFound")
}

// TestGatewayCertificate: a gateway shows the public part of a certificate, never the file or its
// password, and keeps it when a client sends back what it has read.
func TestGatewayCertificate(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(agw, gatewayBody(`,"sslCertificates":[{"name":"s","properties":{"data":"`+
		strings.ReplaceAll(madePFX, "\n", "")+`","password":"p"}}]`))
	b.put(agw, string(kernel.Encode(b.get(agw))))
	p := kernel.ObjectAt(kernel.ListAt(b.properties(agw), "sslCertificates")[0], "properties")
	if p["data"] != nil || p["password"] != nil {
		t.Error("the gateway shows the file, or its password")
	}
	public, err := base64.StdEncoding.DecodeString(kernel.Text(p, "publicCertData"))
	made, _ := pem.Decode([]byte("-----BEGIN CERTIFICATE-----\n" + madeCertificate +
		"-----END CERTIFICATE-----\n"))
	if err != nil || made == nil || !bytes.Contains(public, made.Bytes) {
		t.Errorf("public part: %q, %v", kernel.Text(p, "publicCertData"), err)
	}
	b.put(agw, gatewayBody(`,"sslCertificates":[{"name":"s","properties":{"data":"none"}}]`))
	p = kernel.ObjectAt(kernel.ListAt(b.properties(agw), "sslCertificates")[0], "properties")
	if p["data"] != nil || p["publicCertData"] != nil {
		t.Errorf("of a file that cannot be read: %v", p)
	}
}

// madePFX is a file with madeCertificate and the password p.
const madePFX = `
MIIDcgIBAzCCAzgGCSqGSIb3DQEHAaCCAykEggMlMIIDITCCAhcGCSqGSIb3DQEHBqCCAggwggIEAgEAMIIB/QYJKo
ZIhvcNAQcBMBwGCiqGSIb3DQEMAQMwDgQIBTOVAoN9A3sCAggAgIIB0Kor6ZEmJSemTkcTjBwV/XTPeakTqi/eCLqd
TjqknpEKpDG8/+cnZ6176O+GSy55F5ExAGZfmrNsE/QxFcr2HtO0rQiing04SAXlX8NrvmGzgLehyYs0X7ZVLTkgsX
+z+AgWFB35Wcr6ol0TXMeIYPL5GsEbOHP2ZJzgkiLo/G+e6kK3Itm+8BTC8Y6IYPWQZuFS3SqiMqma7NAMx3UVBF+1
wBQSpE58Xfbv1iHv7O0nbfeSC2alf0jyEfuKw+TVk3ijZ+/NQYZYlnbcjztgmiIrh49h7G+4Y6Re0XcdqbcstoxGPg
yhH88hZwrICtDjcQhalFSDc3rBKFtAsWc2AD0PPAq/ys4uJcTZnp78YJ0GWysu+mnKtz1UJ43WOAuLN/fMEHHIyKeI
Zj6daKlOOJDcURkaH4im6ca7kpb13lEpziUzrfyy/zH6MA4hDWXNR08ttg6poXjU37cNbWmVCuwaV5RsNP2ibwhIfE
MkFx89Rxk0tgvSxSFc9EN2+XUXN5OLAQgJsVgkpPhJ0daEJtgP1MJq8L71U8UIPg6tWGMiXnxolMTOeiZF64E6PKpn
ZcTlCjVVy62dzU+56jU/q8b2nr7IIdN3sr4/VPMsCJpmMIIBAgYJKoZIhvcNAQcBoIH0BIHxMIHuMIHrBgsqhkiG9w
0BDAoBAqCBtDCBsTAcBgoqhkiG9w0BDAEDMA4ECPeG1LdHwV81AgIIAASBkEX7FE3RcMXN8Dn5oeQlevoEJW3KQTo/
RxqK95hgk0aJyFWvLkjIB9ogUUbeihLRhE9UN/Iy2dJWk9+wP3XQgRd8a2hSYjzh0ECHRHw1N6SrLnOTVMSTSgff2w
BzstWnRfvvVzU62PJOtHo1JHPtisP38bNk2P8MYAi+S7v29+EtAZ9s/ad23AYz3dy01HG5CzElMCMGCSqGSIb3DQEJ
FTEWBBTC6yIyOztGa1GbNIufAbh/Iddm3DAxMCEwCQYFKw4DAhoFAAQUFM0PSbZ2PjAo2QL3E40gzuNUjggECBHzge
7xUXQQAgIIAA==`

const madeCertificate = `MIIBcDCCARegAwIBAgIUCt2U926QZxMq6ao+8geFDK0OCScwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCZ3cwIBcNMjYxMTI2MTExODE3WhgPMjEyNjExMDIxMTE4MTda
MA0xCzAJBgNVBAMMAmd3MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeZfPLE8i
GKRmhY387Ucye89Y0BOf03AxJRBt3LAM/sexR0TuCLAjffqDUwQVqorHk0hnRsRC
2Ecnday7JtZ/K6NTMFEwHQYDVR0OBBYEFBJbA56Jb1XL37MSPs0Cd8536b5gMB8G
A1UdIwQYMBaAFBJbA56Jb1XL37MSPs0Cd8536b5gMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDRwAwRAIgJFZmU0xvUG2KRlpjmeW7Akhk5MjYg1PorFri7qRN
i8sCICubKDA5HNP2T/r7U/Pk2gp3YWLqJtpkG5BRNK0696WA
`
