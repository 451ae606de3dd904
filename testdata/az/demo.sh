#!/bin/sh
# Azure CLI 2.45 against the scenario demo: it writes what it reads, and makes the cluster of a pod subnet as Microsoft's pages do.
# In: what session.sh says.
set -eu
. "$(dirname "$0")/session.sh"

# The gateway's subnet, with the command that doctor prints; then a tag on everything.
step gateway-subnet network vnet subnet update --resource-group net-rg --vnet-name shop-vnet --name appgw --route-table appgw-rt
for kind in vnet route-table nsg; do
  step "$kind-list" network $kind list --resource-group net-rg
  for name in $(said name "$kind-list" | grep -E '^(shop-vnet|shop-rt|appgw-rt|nodes-nsg)$'); do
    step "tag-$name" network $kind update --resource-group net-rg --name "$name" --set tags.team=net
  done
done
step tag-gateway network application-gateway update --resource-group net-rg --name shop-agw --set tags.team=net
step tag-cluster aks update --resource-group shop-rg --name shop --tags team=net
step tag-group group update --name shop-rg --set tags.team=net
step all resource list
# shellcheck disable=SC2046 # IDs have no spaces
step tag-all resource tag --tags team=net --ids $(said id all | grep -v -i virtualMachines)

# configure-azure-cni-dynamic-ip-allocation: two subnets in one network, and an identity.
pods="--resource-group pod-rg --location westeurope"
step pod-group group create --name pod-rg --location westeurope
step pod-vnet network vnet create $pods --name pod-vnet --address-prefixes 10.0.0.0/8
step pod-nodes network vnet subnet create --resource-group pod-rg --vnet-name pod-vnet --name nodesubnet --address-prefixes 10.240.0.0/16
step pod-pods network vnet subnet create --resource-group pod-rg --vnet-name pod-vnet --name podsubnet --address-prefixes 10.241.0.0/16
step pod-identity identity create $pods --name pod-identity
step pod-cluster aks create $pods --name podc --max-pods 250 --node-count 2 --network-plugin azure --no-ssh-key \
  --vnet-subnet-id "$(said id pod-nodes)" --pod-subnet-id "$(said id pod-pods)" --assign-identity "$(said id pod-identity)" --yes
step pod-roles role assignment list --all
