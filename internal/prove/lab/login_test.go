package lab

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/azure"
)

var errLogin = errors.New("no login")

type noLogin struct{}

func (noLogin) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, errLogin
}

func newWithoutLogin() (*azure.Client, error) { return azure.New(noLogin{}, azure.Options{}) }
