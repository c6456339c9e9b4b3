"""Which columns each version of FOCUS has, and of which type; our own, under ``x_``, are the same in all.

Here does not belong what stands in them (``columns``).
"""

import pyarrow as pa

from allocation.errors import SettingsError, nearest
from allocation.schemas import MONEY, TEXT, TIME

RATIO = pa.decimal128(38, 12)
NUMBER = pa.float64()

_SINCE_1_2 = {
    "AvailabilityZone": TEXT, "BilledCost": MONEY, "BillingAccountId": TEXT, "BillingAccountName": TEXT,
    "BillingAccountType": TEXT,
    "BillingCurrency": TEXT, "BillingPeriodEnd": TIME, "BillingPeriodStart": TIME, "CapacityReservationId": TEXT,
    "CapacityReservationStatus": TEXT, "ChargeCategory": TEXT, "ChargeClass": TEXT, "ChargeDescription": TEXT,
    "ChargeFrequency": TEXT, "ChargePeriodEnd": TIME, "ChargePeriodStart": TIME, "CommitmentDiscountCategory": TEXT,
    "CommitmentDiscountId": TEXT, "CommitmentDiscountName": TEXT, "CommitmentDiscountQuantity": NUMBER,
    "CommitmentDiscountStatus": TEXT, "CommitmentDiscountType": TEXT, "CommitmentDiscountUnit": TEXT, "ConsumedQuantity": NUMBER,
    "ConsumedUnit": TEXT, "ContractedCost": MONEY, "ContractedUnitPrice": MONEY, "EffectiveCost": MONEY, "InvoiceId": TEXT,
    "InvoiceIssuerName": TEXT, "ListCost": MONEY, "ListUnitPrice": MONEY, "PricingCategory": TEXT, "PricingCurrency": TEXT,
    "PricingCurrencyContractedUnitPrice": MONEY, "PricingCurrencyEffectiveCost": MONEY, "PricingCurrencyListUnitPrice": MONEY,
    "PricingQuantity": NUMBER, "PricingUnit": TEXT, "ProviderName": TEXT, "PublisherName": TEXT, "RegionId": TEXT,
    "RegionName": TEXT, "ResourceId": TEXT, "ResourceName": TEXT, "ResourceType": TEXT, "ServiceCategory": TEXT,
    "ServiceName": TEXT, "ServiceSubcategory": TEXT, "SkuId": TEXT, "SkuMeter": TEXT, "SkuPriceDetails": TEXT, "SkuPriceId": TEXT,
    "SubAccountId": TEXT, "SubAccountName": TEXT, "SubAccountType": TEXT, "Tags": TEXT,
}  # fmt: skip
_SINCE_1_3 = dict.fromkeys(
    ("AllocatedMethodDetails", "AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags",
     "ContractApplied", "HostProviderName", "ServiceProviderName"), TEXT,
)  # fmt: skip
_SINCE_1_4 = dict.fromkeys(("CommitmentProgramEligibilityDetails", "InvoiceDetailId"), TEXT)
_GONE_IN_1_4 = ("ProviderName", "PublisherName")
_OURS = {
    "x_AllocatedRatio": RATIO, "x_Basis": TEXT, "x_Bucket": TEXT, "x_CapacityReservation": TEXT, "x_Cluster": TEXT,
    "x_CostCenter": TEXT, "x_CostMetric": TEXT, "x_Coverage": NUMBER, "x_GpuInstance": TEXT, "x_GpuModel": TEXT,
    "x_GpuUuid": TEXT,
    "x_IdleCost": MONEY, "x_IdleGibSeconds": NUMBER, "x_ImputedSeconds": NUMBER, "x_InstanceType": TEXT, "x_LineItemId": TEXT,
    "x_MigProfile": TEXT, "x_Model": TEXT, "x_Namespace": TEXT, "x_Node": TEXT, "x_ObservedSeconds": NUMBER,
    "x_OriginChargePeriodEnd": TIME, "x_OriginChargePeriodStart": TIME, "x_OriginCost": MONEY, "x_OverheadCost": MONEY,
    "x_OverheadGibSeconds": NUMBER, "x_Pod": TEXT, "x_PodUid": TEXT, "x_PolicyId": TEXT, "x_Reason": TEXT,
    "x_RequestedGpus": NUMBER, "x_RunId": TEXT, "x_Team": TEXT, "x_UntoldCosts": TEXT, "x_UsageType": TEXT, "x_UsedCost": MONEY,
    "x_UsedGibSeconds": NUMBER, "x_WorkloadKind": TEXT, "x_WorkloadName": TEXT,
}  # fmt: skip
VERSIONS = {
    "1.2": _SINCE_1_2,
    "1.3": _SINCE_1_2 | _SINCE_1_3,
    "1.4": {k: v for k, v in (_SINCE_1_2 | _SINCE_1_3 | _SINCE_1_4).items() if k not in _GONE_IN_1_4},
}


def schema_of(version: str) -> pa.Schema:
    """The columns of a version in order of their names, then ours."""
    if version not in VERSIONS:
        raise SettingsError(f"--focus-version {version!r} is not written; {nearest(version, VERSIONS)}")
    kinds = VERSIONS[version]
    columns = [*((name, kinds[name]) for name in sorted(kinds)), *_OURS.items()]
    return pa.schema([pa.field(name, kind) for name, kind in columns], {"focus_version": version})
