"""Reports of a month for people: figures from the marts, and the page, workbook and CSV files that show them."""
