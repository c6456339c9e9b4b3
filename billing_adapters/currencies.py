"""The currencies that a bill may be in: the codes of ISO 4217, with the few that were withdrawn lately."""

_CODES = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL
    BSD BTN BWP BYN BZD CAD CDF CHF CLF CLP CNY COP CRC CUC CUP CVE CZK DJF DKK DOP
    DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF
    IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP
    LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN
    NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
    SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD
    TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW
    ZWG ZWL
"""

ISO_4217 = frozenset(_CODES.split())
"""Codes of money in use; funds, metals and test codes are not among them."""


def ensure_currency(text: str) -> str:
    """The same code, or a ``ValueError`` that says how it is written."""
    if text in ISO_4217:
        return text
    better = text.strip().upper()
    raise ValueError(
        f"{text!r} is no currency code of ISO 4217; {f'write {better}' if better in ISO_4217 else 'for example USD'}"
    )
