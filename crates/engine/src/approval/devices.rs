//! Devices in the record: pairing, rotation and revocation are entries of the audit, and nothing is told before they are
//! written. Which ones there are, and who shows what, is the roster's to say (`access::device`).

use std::sync::Arc;

use super::desk::Desk;
use super::store::{Change, StoreError};
use super::{By, Record, clock};
use crate::access::device::roster::{DEVICES_MAX, Refresh};
use crate::access::device::{Device, DeviceError, Grant, NotIn, Tokens};

impl Desk {
    pub(super) fn pair(
        &mut self,
        device: Device,
        tokens: Option<Tokens>,
        address: String,
    ) -> Result<Device, DeviceError> {
        if self.devices.len() >= DEVICES_MAX {
            let now = clock::wall_ms();
            let late: Vec<String> =
                self.devices.iter().filter(|held| now >= held.until()).map(|held| held.device.id.clone()).collect();
            if self.revoke_devices(&late, "it was not seen for too long", &By::Ostler)? == 0 {
                return Err(DeviceError::TooMany);
            }
        }
        let device = Device { name: self.devices.free_name(&device.name), ..device };
        let id = device.id.clone();
        self.tell_device(&id, Record::DevicePaired { device: device.clone(), tokens, address })?;
        Ok(device)
    }

    pub(super) fn renew(
        &mut self,
        shown: &str,
        (grant, tokens): (Grant, Tokens),
        forgive_ms: u64,
        address: String,
    ) -> Result<Result<Grant, NotIn>, StoreError> {
        match self.devices.with_refresh(shown, forgive_ms, clock::wall_ms()) {
            Err(why) => Ok(Err(why)),
            Ok(Refresh::Good(id)) => {
                self.tell_device(&id, Record::DeviceRenewed { device: id.clone(), tokens, address })?;
                Ok(Ok(grant))
            }
            Ok(Refresh::Old(id)) => {
                let why = format!("a refresh token was used twice, the second time from {address}");
                self.revoke_devices(&[id], &why, &By::Ostler)?;
                Ok(Err(NotIn::Reused))
            }
        }
    }

    pub(super) fn device_seen(&mut self, device: &str, address: &str) -> Result<(), StoreError> {
        if !self.devices.is_due(device, clock::wall_ms()) {
            return Ok(());
        }
        self.tell_device(device, Record::DeviceSeen { device: device.to_owned(), address: address.to_owned() })
    }

    /// Notices for a device are pushed there, or nowhere. The same again is nothing new.
    pub(super) fn subscribe_device(&mut self, device: &str, endpoint: Option<String>) -> Result<(), DeviceError> {
        let held = self.devices.get(device).ok_or(NotIn::Nobody)?;
        if held.suspended {
            return Err(NotIn::Suspended.into());
        }
        if held.endpoint == endpoint {
            return Ok(());
        }
        held.may_spend(clock::wall_ms())?;
        let record = Record::DeviceSubscribed { device: device.to_owned(), endpoint };
        Ok(self.tell_device(device, record)?)
    }

    pub(super) fn revoke_devices(&mut self, ids: &[String], why: &str, by: &By) -> Result<usize, StoreError> {
        let known: Vec<(String, String)> = ids
            .iter()
            .filter_map(|id| self.devices.get(id))
            .map(|held| (held.device.id.clone(), held.device.name.clone()))
            .collect();
        for (id, name) in &known {
            let (device, name, why, by) = (id.clone(), name.clone(), why.to_owned(), by.clone());
            self.tell_device(id, Record::DeviceRevoked { device, name, why, by })?;
        }
        Ok(known.len())
    }

    pub(super) fn affirm_devices(&mut self, digests: &[String], by: By) -> Result<Vec<String>, StoreError> {
        let seen = self.devices.iter().filter(|held| held.suspended && digests.contains(&held.digest()));
        let (devices, names): (Vec<String>, Vec<String>) =
            seen.map(|held| (held.device.id.clone(), held.device.name.clone())).unzip();
        if !devices.is_empty() {
            let record = Record::DevicesAffirmed { devices, by };
            self.log(&record)?;
            Arc::make_mut(&mut self.devices).take(&record, clock::wall_ms());
        }
        Ok(names)
    }

    /// The only way by which a device changes.
    fn tell_device(&mut self, id: &str, record: Record) -> Result<(), StoreError> {
        let at_ms = clock::wall_ms();
        self.append(&Change { about: Some(id), at_ms, records: &[&record], ..Change::default() })?;
        Arc::make_mut(&mut self.devices).take(&record, at_ms);
        Ok(())
    }
}
